//! The one-time link that signs in the first person.

use anyhow::anyhow;
use sluicegate_gateway::PersonId;
use sluicegate_store::People;

/// The person that a new store has.
const FIRST_PERSON: &str = "admin";

/// `Sign in: http://…`, with a new link.
///
/// # Errors
/// When the store fails.
pub async fn sign_in_line(people: &People, origin: &str) -> anyhow::Result<String> {
    let admin =
        PersonId::new(FIRST_PERSON).ok_or_else(|| anyhow!("`{FIRST_PERSON}` is not a person's name"))?;
    let link = people.create_link(&admin).await?;
    let link = link.ok_or_else(|| anyhow!("there is no person `{FIRST_PERSON}` in the store"))?;
    Ok(format!("Sign in: {origin}/sign-in?token={}", link.token))
}
