//! States of a call and of an approval, and their allowed moves. Pure.

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident => $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in database, pages and audit.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Reads the word; `None` if it is not one of ours.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where a call stands.
    CallState {
        /// Asked for, not yet judged.
        Proposed => "proposed",
        /// Held for a person.
        Pending => "pending",
        /// A person said yes; the rules are asked once more before it runs.
        Approved => "approved",
        /// The intent is written; the tool may be running.
        Executing => "executing",
        /// Not run: a rule, a person or a failure said no.
        Denied => "denied",
        /// Not run: nobody decided in time.
        Expired => "expired",
        /// Not run: whoever asked went away.
        Withdrawn => "withdrawn",
        /// Ran, and the tool answered.
        Completed => "completed",
        /// The tool answered with an error, or was never reached.
        Failed => "failed",
        /// Sent, and the answer was lost. Never repeated by us.
        Unknown => "unknown",
    }
}

words! {
    /// Where an approval stands.
    ApprovalStatus {
        /// Waiting for a person.
        Pending => "pending",
        /// Enough people said yes.
        Approved => "approved",
        /// A person said no.
        Denied => "denied",
        /// Its time ran out.
        Expired => "expired",
        /// The caller went away.
        Withdrawn => "withdrawn",
        /// Spent, in the transaction that wrote the intent.
        Consumed => "consumed",
        /// Was approved, and did not run.
        Void => "void",
    }
}

impl CallState {
    /// Whether nothing can happen to the call by itself any more.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Proposed | Self::Pending | Self::Approved | Self::Executing)
    }

    /// Whether a call may go from this state to `next`.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Proposed => matches!(next, Self::Denied | Self::Pending | Self::Executing),
            Self::Pending => matches!(next, Self::Denied | Self::Expired | Self::Withdrawn | Self::Approved),
            Self::Approved => {
                matches!(next, Self::Denied | Self::Withdrawn | Self::Pending | Self::Executing)
            }
            Self::Executing => matches!(next, Self::Completed | Self::Failed | Self::Unknown),
            Self::Denied
            | Self::Expired
            | Self::Withdrawn
            | Self::Completed
            | Self::Failed
            | Self::Unknown => false,
        }
    }
}
