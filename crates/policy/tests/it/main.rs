//! What the policy engine promises, tried from outside.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod arguments;
mod bounds;
mod comparison;
mod conditions;
mod decisions;
mod documents;
mod findings;
mod fixtures;
mod hosts;
mod kinds;
mod lattice;
mod limits;
mod paths;
mod properties;
mod reference;
mod seed;
mod tiers;
