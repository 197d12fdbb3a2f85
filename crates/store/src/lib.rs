//! Durable storage: the one package that speaks SQL, so that nobody else can.
//!
//! One writer owns the only connection that writes. It takes whatever waits, runs each command in a savepoint of one
//! `BEGIN IMMEDIATE` transaction, appends the audit rows of each to the chain, commits once, and answers only then.
//! Readers have connections of their own and never wait for it.
//!
//! [`Store::open_server`] gives narrow handles, so that nobody holds more than their job: only [`Calls`] can change a
//! call or an approval, and it is moved into the gateway.

mod audit_log;
mod audit_reader;
mod call_list;
mod call_reader;
mod call_row;
mod calls;
mod codec;
mod conversations;
mod error;
mod events;
mod feed;
mod keys;
mod open;
mod overview;
mod page;
mod people;
mod policies;
mod recorded;
mod resolutions;
mod sessions;
mod usage;
mod verify;
mod writer;

pub use audit_log::AuditLog;
pub use audit_reader::{AuditFilter, AuditReader, AuditStart};
pub use call_list::{CallFilter, CallPage};
pub use call_reader::{CallReader, CallStory, PendingCall};
pub use call_row::{CallRow, Evaluation, Resolution};
pub use calls::Calls;
pub use conversations::{
    Appended, Conversation, Conversations, ListedAfter, Message, NewConversation, NewMessage, Turn,
};
pub use error::OpenError;
pub use feed::{Change, Feed};
pub use keys::{CreatedKey, Key, KeyName, KeyOutcome, Keys, NewKey};
pub use open::{Store, StoreOptions, Synchronous};
pub use overview::{DecisionTime, DeniedTool, FlaggedCall, Overview, RuleHits, SlotCount};
pub use page::Page;
pub use people::{People, Person, SignIn, SignInLink};
pub use policies::{Policies, PolicyAppended, PolicyEntry, PolicyRemarks};
pub use recorded::RecordedCall;
pub use resolutions::{ResolutionOutcome, Resolutions};
pub use usage::UsageTotals;
pub use verify::{Verified, VerifyError, verify_file};
