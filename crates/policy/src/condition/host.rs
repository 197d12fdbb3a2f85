//! The host of a URL, judged from its text alone: no name is looked up.
//!
//! A URL that different parsers read differently is refused (unevaluable): user information before an `@`, a backslash,
//! percent signs or spaces in the authority, control characters anywhere, spaces around it, other than two slashes after
//! the scheme, empty labels. Schemes whose hosts have one agreed form are judged: http, https, ws, wss, ftp.
//!
//! The rest is brought into one form by the `url` crate and here: lower case, IDNA, numeric addresses in any notation
//! (`0x7f.1`, `2130706433`) as four numbers, IPv4 in IPv6 (`::ffff:127.0.0.1`, `::127.0.0.1`, `64:ff9b::7f00:1`) as IPv4,
//! one trailing dot dropped.

use alloc::boxed::Box;
use alloc::string::String;
use core::net::{Ipv4Addr, Ipv6Addr};

use url::Url;

/// A host in its one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Name(Box<str>),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Host {
    /// Reads an operand: a bare host name or address, IPv6 with or without brackets.
    pub(super) fn new(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self::v6(address));
        }
        // `*` is no forbidden character of a host, but a name with one never occurs: `host_within` is what was meant.
        if text.contains(['%', '@', ':', '/', '\\', '*']) && !text.starts_with('[') {
            return None;
        }
        Self::from_url(url::Host::parse(text).ok()?)
    }

    /// The host of a URL; `None` if it cannot be judged.
    pub(super) fn of_url(text: &str) -> Option<Self> {
        if text.chars().any(char::is_control) || text.trim() != text {
            return None;
        }
        let url = Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp") {
            return None;
        }
        let (scheme, rest) = text.split_at_checked(url.scheme().len())?;
        let authority = rest.strip_prefix("://")?.split(['/', '?', '#']).next()?;
        let plain = !authority.is_empty()
            && scheme.eq_ignore_ascii_case(url.scheme())
            && !authority.contains(|c: char| matches!(c, '@' | '\\' | '%') || c.is_whitespace());
        if !plain {
            return None;
        }
        Self::from_url(url.host()?.to_owned())
    }

    fn from_url(host: url::Host<String>) -> Option<Self> {
        match host {
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let whole = !name.is_empty() && name.split('.').all(|label| !label.is_empty());
                whole.then(|| Self::Name(name.into()))
            }
            url::Host::Ipv4(address) => Some(Self::V4(address)),
            url::Host::Ipv6(address) => Some(Self::v6(address)),
        }
    }

    fn v6(address: Ipv6Addr) -> Self {
        embedded(address).map_or(Self::V6(address), Self::V4)
    }

    /// Whether the other host is this one or a name below it. An address is within itself alone.
    pub(super) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(above), Self::Name(name)) => {
                name.strip_suffix(&**above).is_some_and(|left| left.is_empty() || left.ends_with('.'))
            }
            (Self::Name(_) | Self::V4(_) | Self::V6(_), _) => self == other,
        }
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible (not `::` and `::1`), or behind the well-known prefix
/// of translators.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {}
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => {}
        _ => return None,
    }
    let [.., a, b, c, d] = address.octets();
    Some(Ipv4Addr::new(a, b, c, d))
}
