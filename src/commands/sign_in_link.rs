//! `sluicegate sign-in-link`.

use std::sync::Arc;

use anyhow::bail;
use sluicegate_gateway::SystemClock;
use sluicegate_store::{Store, StoreOptions};

use super::{Answer, runtime, say};
use crate::app::sign_in_line;
use crate::config::Config;

pub(super) fn run(config: &Config) -> anyhow::Result<Answer> {
    if config.public_url.is_none() && config.listen.port() == 0 {
        bail!("the port is not known, since LISTEN asks for any free one; give --public-url");
    }
    let origin = config.origin(config.listen);
    runtime()?.block_on(async {
        let store =
            Store::open_tool(&config.database_url, Arc::new(SystemClock::new()), StoreOptions::default())
                .await?;
        let line = sign_in_line(&store.people(), &origin).await;
        store.close().await;
        say(&line?)?;
        Ok(Answer::Yes)
    })
}
