use super::*;

const MINUTE: TimeMs = 60_000;

fn home() -> PathBuf {
    PathBuf::from("/home/ada/.codex")
}

fn id(name: &str) -> TaskId {
    TaskId(name.to_owned())
}

#[test]
fn tasks_that_were_under_way_together_meet_one_limit() {
    let mut accounts = Accounts::default();
    let first = accounts.met(&home(), &id("a"), None, 0);
    assert_eq!((first.resume_at, first.hits), (5 * MINUTE, 1));
    assert_eq!(accounts.met(&home(), &id("b"), None, 7), first);
    let told = accounts.met(&home(), &id("c"), Some(MINUTE), 8);
    assert_eq!((told.resume_at, told.is_known, told.hits), (MINUTE, true, 1));
}

#[test]
fn one_probes_for_all_and_each_failure_doubles_the_pause_of_all() {
    let mut accounts = Accounts::default();
    let mut now = accounts.met(&home(), &id("a"), None, 0).resume_at;
    for (hits, pause) in [(2, 10), (3, 20), (4, 40), (5, 60), (6, 60)] {
        assert_eq!(accounts.may_resume(&home(), &id("a"), now - 1), Pace::At(now));
        assert_eq!(accounts.may_resume(&home(), &id("a"), now), Pace::Now);
        assert!(accounts.limit(&home(), &id("a"), now).is_none(), "the probe is let through");
        assert!(accounts.limit(&home(), &id("b"), now).is_some(), "nobody else is");
        assert_eq!(
            accounts.may_resume(&home(), &id("b"), now + 5_000),
            Pace::At(now + PROBE_LIMIT_MS),
            "and nobody else tries"
        );
        let failed = accounts.met(&home(), &id("a"), None, now + 1);
        assert_eq!((failed.hits, failed.resume_at), (hits, now + 1 + pause * MINUTE));
        now = failed.resume_at;
    }
}

#[test]
fn a_probe_that_is_served_lifts_the_limit_and_the_others_follow_one_by_one() {
    let mut accounts = Accounts::default();
    let due = accounts.met(&home(), &id("a"), None, 0).resume_at;
    assert_eq!(accounts.may_resume(&home(), &id("a"), due), Pace::Now);
    assert!(!accounts.served(&home(), -1), "a turn from before the limit says nothing of it");
    assert!(accounts.served(&home(), due));
    assert!(accounts.limit(&home(), &id("b"), due).is_none());
    assert_eq!(accounts.may_resume(&home(), &id("b"), due + 1), Pace::At(due + STAGGER_MS));
    assert_eq!(accounts.may_resume(&home(), &id("b"), due + STAGGER_MS), Pace::Now);
    assert_eq!(accounts.may_resume(&home(), &id("c"), due + STAGGER_MS), Pace::At(due + 2 * STAGGER_MS));
    assert_eq!(accounts.may_resume(Path::new("/other"), &id("d"), due + STAGGER_MS), Pace::Now);
}

#[test]
fn a_probe_that_ends_or_hangs_lets_another_one_try() {
    let mut accounts = Accounts::default();
    let due = accounts.met(&home(), &id("a"), None, 0).resume_at;
    assert_eq!(accounts.may_resume(&home(), &id("a"), due), Pace::Now);
    assert!(accounts.ended(&home(), &id("a")) && !accounts.ended(&home(), &id("a")));
    assert_eq!(accounts.may_resume(&home(), &id("b"), due + STAGGER_MS), Pace::Now);
    assert_eq!(accounts.may_resume(&home(), &id("c"), due + STAGGER_MS + PROBE_LIMIT_MS), Pace::Now);
}

#[test]
fn a_known_end_holds_all_until_then_and_a_person_may_try_before() {
    let mut accounts = Accounts::default();
    accounts.met(&home(), &id("a"), Some(MINUTE), 0);
    assert_eq!(accounts.may_resume(&home(), &id("a"), 1), Pace::At(MINUTE));
    accounts.try_now(&home(), &id("b"), 2);
    accounts.try_now(&home(), &id("c"), 3);
    assert!(accounts.limit(&home(), &id("b"), 4).is_none());
    assert!(accounts.limit(&home(), &id("c"), 4).is_some(), "one at a time");
    assert!(accounts.limit(&home(), &id("c"), MINUTE).is_none(), "it is over");
    assert_eq!(accounts.may_resume(&home(), &id("a"), MINUTE), Pace::Now);
}

#[test]
fn an_end_that_is_long_over_counts_as_unknown() {
    let mut accounts = Accounts::default();
    let limit = accounts.met(&home(), &id("a"), Some(0), 10 * MINUTE);
    assert_eq!((limit.is_known, limit.resume_at), (false, 15 * MINUTE));
}
