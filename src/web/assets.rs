//! Static files, inside the binary. Their address carries a digest of their content, so that browsers may keep them.

use super::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// A file that is served as it is.
#[derive(Debug)]
pub(crate) struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    url: LazyLock<String>,
}

macro_rules! asset {
    ($(#[$meta:meta])* $ident:ident, $name:literal, $kind:literal) => {
        $(#[$meta])*
        pub(crate) static $ident: Asset = Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("../../static/", $name)),
            url: LazyLock::new(|| address(&$ident)),
        };
    };
}

asset!(
    /// The stylesheet.
    CSS, "sluicegate.css", "text/css; charset=utf-8"
);
asset!(
    /// Connection state, countdowns, shortcuts, copy buttons. Every page works without it.
    SCRIPT, "sluicegate.js", "text/javascript; charset=utf-8"
);
asset!(
    /// The library that replaces parts of a page.
    HTMX, "htmx-4.0.1.min.js", "text/javascript; charset=utf-8"
);
asset!(
    /// Its extension for event streams.
    HTMX_SSE, "hx-sse-4.0.1.min.js", "text/javascript; charset=utf-8"
);
asset!(
    /// The mark, as the icon of the tab.
    LOGO, "logo.svg", "image/svg+xml"
);

static ALL: [&Asset; 5] = [&CSS, &SCRIPT, &HTMX, &HTMX_SSE, &LOGO];

impl Asset {
    /// Its address, with the digest of its content.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn address(asset: &Asset) -> String {
    let mut url = "/static/".to_owned();
    for byte in Sha256::digest(asset.bytes).iter().take(8) {
        // Writing to a string cannot fail.
        write!(url, "{byte:02x}").unwrap_or_default();
    }
    url.push('/');
    url.push_str(asset.name);
    url
}

/// The static files, and the icon that browsers ask for by its old name.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/static/{digest}/{name}", get(serve))
        .route("/favicon.ico", get(|| async { file(&LOGO, false) }))
}

async fn serve(Path((digest, name)): Path<(String, String)>) -> Response {
    let asked = format!("/static/{digest}/{name}");
    match ALL.iter().find(|asset| asset.url() == asked) {
        Some(asset) => file(asset, true),
        None => super::error::WebError::NotFound.into_response(),
    }
}

fn file(asset: &Asset, immutable: bool) -> Response {
    let keep = if immutable { "public, max-age=31536000, immutable" } else { "public, max-age=3600" };
    ([(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, keep)], asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_unchanged() {
        let list = include_str!("../../static/VENDORED.md");
        for asset in [&HTMX, &HTMX_SSE] {
            let digest: String =
                Sha256::digest(asset.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            let row = list.lines().find(|line| line.starts_with(&format!("| `{}`", asset.name))).unwrap();
            assert!(row.contains(&digest), "{} has the digest {digest}", asset.name);
        }
    }

    #[test]
    fn addresses_change_with_the_content() {
        assert_ne!(CSS.url(), SCRIPT.url());
        assert!(CSS.url().starts_with("/static/") && CSS.url().ends_with("/sluicegate.css"), "{}", CSS.url());
    }
}
