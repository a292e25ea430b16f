use super::*;

fn is(bytes: &[u8]) -> String {
    format!("{:?}", classify(bytes.to_vec()))
}

#[test]
fn a_file_is_what_its_bytes_are() {
    assert_eq!(is(b"\x89PNG\r\n\x1a\nrest"), "Image(image/png, 12 bytes)");
    assert_eq!(is(b"\xff\xd8\xff\xe0"), "Image(image/jpeg, 4 bytes)");
    assert_eq!(is(b"GIF89a."), "Image(image/gif, 7 bytes)");
    assert_eq!(is(b"RIFF\x01\x02\x03\x04WEBPVP8 "), "Image(image/webp, 16 bytes)");
    assert_eq!(is("größer\n".as_bytes()), "Text(9 bytes)");
    assert_eq!(is(b"OggS\0"), "Speech(5 bytes)");
    assert_eq!(is(b"RIFF\x01\x02\x03\x04WAVEfmt "), "Speech(16 bytes)");
    assert_eq!(is(b"\xff\xfb\x90\x64\0"), "Speech(5 bytes)");
    assert_eq!(is(b"%PDF-1.7\n\xe2\xe3\xcf\xd3"), format!("Unreadable({NEITHER:?})"));
    assert_eq!(is(b"text\0with a zero"), format!("Unreadable({NEITHER:?})"));
    assert_eq!(is(b"\xff\xfe\x41"), format!("Unreadable({NEITHER:?})"), "UTF-16");
    assert_eq!(is(b""), "Unreadable(\"it is empty\")");
    let large = vec![b'x'; usize::try_from(FILE_BYTES).unwrap() + 1];
    assert_eq!(is(&large), "Unreadable(\"it has 10,485,761 bytes, and a file may have 10 MB\")");
}

fn file(content: Content) -> Attachment {
    Attachment { kind: "file".into(), name: "a".into(), content }
}

#[test]
fn files_that_are_too_many_or_too_large_together_are_left_out() {
    let of = |megabytes: usize| file(Content::Text(vec![b'x'; megabytes * 1024 * 1024]));
    let is_left_out = |mut files: Vec<Attachment>| -> Vec<bool> {
        limit(&mut files);
        files.iter().map(|file| matches!(file.content, Content::Unreadable(_))).collect()
    };
    assert_eq!(is_left_out(vec![of(9), of(9), of(9), of(1)]), [false, false, true, false]);
    let image = |megabytes: usize| {
        let (media_type, bytes) = (MediaType::Png, vec![0; megabytes * 1024 * 1024]);
        file(Content::Image { media_type, bytes })
    };
    assert_eq!(is_left_out(vec![image(5), image(5), image(3), of(5)]), [false, true, false, false]);
    let many = is_left_out((0..12).map(|_| file(Content::Text(b"x".to_vec()))).collect());
    assert_eq!(many.iter().filter(|is_left_out| **is_left_out).count(), 2);
    let far = Content::AtSource { reference: "f".into(), bytes: Some(FILE_BYTES + 1), is_speech: false };
    assert_eq!(is_left_out(vec![file(far)]), [true], "before it is fetched");
}

fn stored(number: u32, kind: &str, name: &str, bytes: u64, is: Is) -> StoredFile {
    StoredFile { number, about: About { kind: kind.into(), name: name.into(), bytes, is } }
}

#[test]
fn a_prompt_names_every_file() {
    let id = MessageId("in-0a1b".into());
    let files = [
        stored(1, "photo", "", 12_345, Is::Image(MediaType::Jpeg)),
        stored(2, "file", "../no tes.txt", 1, Is::Text),
        stored(3, "video", "clip].mp4", 9, Is::Unreadable("it is long".into())),
    ];
    let lines = "[image: photo, 12,345 bytes]\n[file: inbox/0a1b-2-no_tes.txt, 1 byte]\n\
        [video attached: clip_.mp4; it cannot be read: it is long]";
    assert_eq!(prompt("look", &id, &files), format!("look\n\n{lines}"));
    assert_eq!(prompt(" ", &id, &files), lines);
    assert_eq!(prompt("look", &id, &[]), "look");
    assert_eq!(unreadable(&files).unwrap(), "I cannot read this: clip_.mp4: it is long.");
    assert_eq!(unreadable(&files[..2]), None);
}

#[test]
fn nobody_sees_the_bytes_of_a_file_by_accident() {
    assert_eq!(format!("{:?}", Content::Text(b"secret".to_vec())), "Text(6 bytes)");
}
