//! The stories of every store, on each of them.

mod memory {
    use crate::memory_store::Memory;

    codex_bridge_core::store_stories!((Memory::default(), ()));
}

mod sqlite {
    use codex_bridge_core::store::sqlite::Sqlite;

    codex_bridge_core::store_stories!({
        let folder = tempfile::tempdir().unwrap();
        (Sqlite::open(&folder.path().join("bridge.sqlite3")).unwrap(), folder)
    });
}
