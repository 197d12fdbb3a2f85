//! `sluicegate audit …`.

use sluicegate_store::{Verified, verify_file};

use super::{Answer, runtime, say};
use crate::config::Config;

pub(super) fn verify(config: &Config) -> anyhow::Result<Answer> {
    match runtime()?.block_on(verify_file(&config.database_url, |_, _| {}))? {
        Verified::Whole(head) => {
            say(&format!("the trail is whole: {} rows, ending in {}", head.seq, head.hash))?;
            Ok(Answer::Yes)
        }
        Verified::Broken(broken) => {
            say(&format!("the trail is broken: {broken}"))?;
            Ok(Answer::No)
        }
    }
}
