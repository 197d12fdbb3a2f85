//! What every answer carries, and what every request must: security headers, Host and Origin, limits.

use super::error::WebError;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest form that is read.
pub(crate) const FORM_LIMIT: usize = 1024 * 1024;

/// How long a page may take to begin its answer. Streams begin at once; waiting for a turn is exempt.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Nothing inline, nothing evaluated, nothing from elsewhere, in nobody's frame.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The names under which the product is reached: whoever asks by another name is somebody's web page that points
/// its own name at this machine.
#[derive(Clone, Debug)]
pub struct Hosts {
    authorities: Arc<[String]>,
    origins: Arc<[String]>,
    public: Arc<str>,
    secure: bool,
    port: u16,
}

/// The public address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the public address `{0}` is no `http://…` or `https://…` address without a path; set PUBLIC_URL to one"
)]
pub struct NotAnAddress(String);

impl Hosts {
    /// Names from the public address and the listening one. Loopback names of the listening port always count: no
    /// other machine can claim them.
    ///
    /// # Errors
    /// When the public address is not a plain origin.
    pub fn new(public_url: &str, listen: SocketAddr) -> Result<Self, NotAnAddress> {
        let wrong = || NotAnAddress(public_url.to_owned());
        let uri: Uri = public_url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.path() != "/" || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let host = authority.host().to_ascii_lowercase();
        let usual = if secure { 443 } else { 80 };
        let public = authority.port_u16().unwrap_or(usual);
        let mut names = vec![(secure, host, public)];
        names.extend(["127.0.0.1", "[::1]", "localhost"].map(|name| (false, name.to_owned(), listen.port())));
        if !listen.ip().is_unspecified() {
            let ip = if listen.is_ipv6() { format!("[{}]", listen.ip()) } else { listen.ip().to_string() };
            names.push((false, ip, listen.port()));
        }
        let (mut authorities, mut origins) = (Vec::new(), Vec::new());
        for (secure, host, port) in names {
            let (scheme, usual) = if secure { ("https", 443) } else { ("http", 80) };
            if port == usual {
                authorities.push(host.clone());
                origins.push(format!("{scheme}://{host}"));
            }
            authorities.push(format!("{host}:{port}"));
            origins.push(format!("{scheme}://{host}:{port}"));
        }
        let scheme = if secure { "https" } else { "http" };
        Ok(Self {
            authorities: authorities.into(),
            origins: origins.into(),
            public: format!("{scheme}://{authority}").into(),
            secure,
            port: listen.port(),
        })
    }

    /// Whether the public address is an encrypted one, so that cookies are for encrypted connections alone.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.secure
    }

    /// The public address, without a slash at the end.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The origins of our own pages.
    pub fn origins(&self) -> impl Iterator<Item = &str> {
        self.origins.iter().map(String::as_str)
    }

    /// The authorities (`host:port`) under which requests are answered.
    pub fn authorities(&self) -> impl Iterator<Item = &str> {
        self.authorities.iter().map(String::as_str)
    }

    /// The listening port: it tells the cookies of two instances on one host apart.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether a request names us, and comes from nobody else's page.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), WebError> {
        let known =
            |name: &str| self.authorities.iter().any(|authority| authority.eq_ignore_ascii_case(name));
        let mut named = headers.get_all(HOST).iter();
        match (named.next(), named.next()) {
            (Some(host), None) if host.to_str().is_ok_and(known) => {}
            (Some(_), None) => return Err(WebError::Foreign("its Host is not a name of this product")),
            (None, _) if uri.authority().is_some_and(|authority| known(authority.as_str())) => {}
            _ => return Err(WebError::Foreign("it names no Host, or several")),
        }
        if uri.authority().is_some_and(|authority| !known(authority.as_str())) {
            return Err(WebError::Foreign("its Host is not a name of this product"));
        }
        // A page that sends no referrer sends the origin `null` with its forms. That the page is ours shows in a header
        // that no page can set by itself; without it, `null` is somebody's sandbox or file.
        let same_site = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
        let ours = |origin: &HeaderValue| {
            let known = |name: &str| self.origins.iter().any(|ours| ours.eq_ignore_ascii_case(name));
            origin.to_str().is_ok_and(|origin| known(origin) || (origin == "null" && same_site))
        };
        if headers.get_all(ORIGIN).iter().all(ours) {
            Ok(())
        } else {
            Err(WebError::Foreign("its Origin is another one than ours"))
        }
    }
}

/// Refuses foreign requests before anything else looks at them.
pub(crate) async fn admit(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    match hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(foreign) => foreign.into_response(),
    }
}

/// Adds the headers that every answer carries. A handler's own `Cache-Control` and
/// `Referrer-Policy` stay.
pub(crate) async fn secure(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if hosts.secure {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Not `no-referrer`: with it, browsers send our own forms with the origin `null`. Nothing leaves for other sites.
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(hosts: &Hosts, headers: &[(&str, &str)]) -> bool {
        let map: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        hosts.check(&Uri::from_static("/"), &map).is_ok()
    }

    /// F18: which Host and Origin are ours.
    #[test]
    fn f18_foreign_hosts_and_origins_are_told_apart() {
        let local = Hosts::new("http://127.0.0.1:8080", "127.0.0.1:8080".parse().unwrap()).unwrap();
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"] {
            assert!(admitted(&local, &[("host", host)]), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1",
            "127.0.0.1:8081",
            "localhost:8080.",
            "",
            "127.0.0.1:8080@evil.example",
        ] {
            assert!(!admitted(&local, &[("host", host)]), "{host}");
        }
        assert!(!admitted(&local, &[]));
        assert!(!admitted(&local, &[("host", "127.0.0.1:8080"), ("origin", "null")]));
        for origin in [
            "http://evil.example",
            "http://127.0.0.1:8081",
            "https://127.0.0.1:8080",
            "http://127.0.0.1:8080.evil.example",
            "",
        ] {
            assert!(!admitted(&local, &[("host", "127.0.0.1:8080"), ("origin", origin)]), "{origin}");
        }
        assert!(admitted(&local, &[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")]));
        let null = [("host", "127.0.0.1:8080"), ("origin", "null")];
        assert!(!admitted(&local, &[null[0], null[1], ("sec-fetch-site", "cross-site")]));
        assert!(!admitted(&local, &[null[0], null[1], ("sec-fetch-site", "none")]));
        assert!(admitted(&local, &[null[0], null[1], ("sec-fetch-site", "same-origin")]));
        let mut twice = HeaderMap::new();
        twice.append(HOST, "127.0.0.1:8080".parse().unwrap());
        twice.append(HOST, "evil.example".parse().unwrap());
        assert!(local.check(&Uri::from_static("/"), &twice).is_err());
        assert!(local.check(&Uri::from_static("http://evil.example/"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_public_address_names_the_product() {
        let public = Hosts::new("https://gate.example.org/", "0.0.0.0:8080".parse().unwrap()).unwrap();
        assert!(public.secure());
        assert!(admitted(&public, &[("host", "gate.example.org"), ("origin", "https://gate.example.org")]));
        assert!(admitted(&public, &[("host", "gate.example.org:443")]));
        assert!(admitted(&public, &[("host", "localhost:8080")]));
        assert!(!admitted(&public, &[("host", "0.0.0.0:8080")]));
        assert!(!admitted(&public, &[("host", "gate.example.org"), ("origin", "http://gate.example.org")]));
        for wrong in
            ["gate.example.org", "ftp://gate.example.org", "https://gate.example.org/path", "https://a@b", ""]
        {
            assert!(Hosts::new(wrong, "127.0.0.1:1".parse().unwrap()).is_err(), "{wrong}");
        }
    }
}
