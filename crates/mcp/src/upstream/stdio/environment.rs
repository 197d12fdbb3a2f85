//! What a child process is given of our environment: as little as programs need to run at all (field case F16).

use super::leftovers::MARK;
use crate::servers::Hidden;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Where programs, the home folder, the language, the time zone and temporary files are.
const BASE: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TMPDIR", "TZ"];
const BASE_PREFIX: &str = "LC_";

/// The child's whole environment: the base list out of ours, then what its entry names, then the mark by which a later
/// run finds it.
pub(crate) fn of_child(
    ours: &[(OsString, OsString)],
    entry: &BTreeMap<String, Hidden>,
    mark: Option<&str>,
) -> BTreeMap<OsString, OsString> {
    let base = ours.iter().filter(|(name, _)| is_base(name)).cloned();
    let named = entry.iter().map(|(name, value)| (OsString::from(name), OsString::from(value.reveal())));
    let mark = mark.map(|mark| (OsString::from(MARK), OsString::from(mark)));
    base.chain(named).chain(mark).collect()
}

fn is_base(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| BASE.contains(&name) || name.starts_with(BASE_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_a_child_gets_the_base_list_and_what_its_entry_names() {
        let ours: Vec<(OsString, OsString)> = [
            ("PATH", "/bin"),
            ("HOME", "/home/x"),
            ("LC_ALL", "C.UTF-8"),
            ("GEMINI_API_KEY", "CANARY"),
            ("DATABASE_URL", "CANARY"),
            ("LCX", "CANARY"),
            ("LD_PRELOAD", "CANARY"),
            ("path", "CANARY"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        let entry = crate::servers::ServerEntry::stdio("s", "x", &[]).unwrap();
        let entry = entry.with_env("HOME", "/elsewhere").unwrap().with_env("EXTRA", "1").unwrap();
        let entry = entry.with_env(MARK, "nothing").unwrap();
        let crate::servers::Reach::Stdio { env, .. } = entry.reach() else { panic!() };
        let got: Vec<(String, String)> = of_child(&ours, env, Some("this store"))
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect();
        let want = [
            ("EXTRA", "1"),
            ("HOME", "/elsewhere"),
            ("LC_ALL", "C.UTF-8"),
            ("PATH", "/bin"),
            (MARK, "this store"),
        ];
        assert_eq!(got, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
