//! A browser's stand-in: keeps cookies, follows redirects, and submits the forms that it finds in pages, with their own
//! action, method and hidden fields. So a test does what a person can do, and nothing else.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use scraper::{ElementRef, Html, Selector};
use sse_stream::{Sse, SseStream};
use tokio::time::timeout;

use super::server::Server;

/// Longer than any answer may take on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 10;

/// One person's browser. Clones share the cookies, like tabs.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    client: reqwest::Client,
    base: Url,
    cookies: Arc<Mutex<BTreeMap<String, String>>>,
    headers: HeaderMap,
}

impl Browser {
    /// A browser without cookies at a server's address.
    pub(crate) fn new(server: &Server) -> Self {
        Self::at(server.url())
    }

    /// A browser without cookies at an address `http://host:port`.
    #[expect(clippy::disallowed_methods, reason = "tests are a client of the product")]
    pub(crate) fn at(base: &str) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .expect("an HTTP client");
        Self {
            client,
            base: Url::parse(base).expect("the server's address is a URL"),
            cookies: Arc::default(),
            headers: HeaderMap::new(),
        }
    }

    /// A browser that has signed in by the one-time link which the server printed.
    pub(crate) async fn signed_in(server: &Server) -> Self {
        let browser = Self::new(server);
        let page = browser.get(server.sign_in_link()).await.expect_status(StatusCode::OK);
        let page = browser.submit(&page.form("form")).await;
        assert!(!page.path.starts_with("/sign-in"), "still at {} after signing in", page.path);
        browser
    }

    /// The same browser sending one more header with each request.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.insert(
            HeaderName::from_bytes(name.as_bytes()).expect("a header name"),
            HeaderValue::from_str(value).expect("a header value"),
        );
        other
    }

    /// The same browser asking as htmx does, for the fragment that goes into the element `target`.
    pub(crate) fn htmx(&self, target: &str) -> Self {
        self.with_header("hx-request", "true")
            .with_header("hx-request-type", "partial")
            .with_header("hx-target", target)
            .with_header("hx-current-url", self.base.as_str())
    }

    /// The names and values of the cookies it holds.
    pub(crate) fn cookies(&self) -> BTreeMap<String, String> {
        self.cookies.lock().expect("no holder panicked").clone()
    }

    /// Opens a page, by path or full address, and follows redirects.
    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(Method::GET, self.url(path), None).await
    }

    /// Submits a form that was found in a page.
    pub(crate) async fn submit(&self, form: &Form) -> Page {
        let mut url = Url::parse(&form.address).expect("a form's address");
        let encoded = form.encoded();
        if form.method == Method::GET {
            url.set_query(Some(&encoded));
            self.send(Method::GET, url, None).await
        } else {
            let body = Body { content_type: "application/x-www-form-urlencoded", text: encoded };
            self.send(form.method.clone(), url, Some(body)).await
        }
    }

    /// Submits a form to a server that may die over it: no answer is an answer too.
    pub(crate) async fn try_submit(&self, form: &Form) -> Option<Page> {
        AssertUnwindSafe(self.submit(form)).catch_unwind().await.ok()
    }

    /// Posts JSON and asks for JSON, as a program does.
    pub(crate) async fn post_json(&self, path: &str, value: &serde_json::Value) -> Page {
        let body = Body { content_type: "application/json", text: value.to_string() };
        self.with_header("accept", "application/json").send(Method::POST, self.url(path), Some(body)).await
    }

    /// Any request, for tests of what pages do not offer. Redirects are followed.
    pub(crate) async fn request(&self, method: Method, path: &str, form: &[(&str, &str)]) -> Page {
        let fields: Vec<_> = form.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = Body { content_type: "application/x-www-form-urlencoded", text: encode(&fields) };
        let body = (method != Method::GET).then_some(body);
        self.send(method, self.url(path), body).await
    }

    /// Opens an event stream, from the start or after an event.
    pub(crate) async fn events(&self, path: &str, last_event_id: Option<&str>) -> Events {
        let mut request = self.client.get(self.url(path)).headers(self.headers.clone());
        request = request.header("accept", "text/event-stream").header("cookie", self.cookie_header());
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response =
            timeout(PATIENCE, request.send()).await.expect("an answer in time").expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "the event stream at {path}");
        Events { stream: Box::pin(SseStream::from_bytes_stream(response.bytes_stream())) }
    }

    /// Opens a page again and again until it is as wanted, for changes that come by themselves.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Page) -> bool) -> Page {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        let mut last = None;
        let found = timeout(PATIENCE, async {
            loop {
                pause.tick().await;
                let page = self.get(path).await;
                if wanted(&page) {
                    return page;
                }
                last = Some(page);
            }
        });
        match found.await {
            Ok(page) => page,
            Err(_) => panic!("{path} never became what the test waits for; last:\n{last:#?}"),
        }
    }

    fn url(&self, path: &str) -> Url {
        self.base.join(path).expect("a path")
    }

    fn cookie_header(&self) -> String {
        self.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    async fn send(&self, mut method: Method, mut url: Url, mut body: Option<Body>) -> Page {
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.client.request(method.clone(), url.clone());
            // What a browser says by itself of a request that one of our own pages made.
            request = request.header("sec-fetch-site", "same-origin").header("accept", "text/html");
            if method != Method::GET {
                request = request.header("origin", self.base.origin().ascii_serialization());
            }
            let cookies = self.cookie_header();
            if !cookies.is_empty() {
                request = request.header("cookie", cookies);
            }
            if let Some(body) = &body {
                request = request.header("content-type", body.content_type).body(body.text.clone());
            }
            // Headers of the test replace those above.
            let request = request.headers(self.headers.clone());
            let response =
                timeout(PATIENCE, request.send()).await.expect("an answer in time").expect("an answer");
            self.keep_cookies(response.headers());
            let status = response.status();
            let headers = response.headers().clone();
            let address = headers.get("location").map(|at| at.to_str().expect("an address").to_owned());
            if let (true, Some(address)) = (status.is_redirection(), address) {
                let next = url.join(&address).expect("an address to go to");
                assert_eq!(next.origin(), self.base.origin(), "a redirect leads out of the product");
                if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
                    method = Method::GET;
                    body = None;
                }
                url = next;
                continue;
            }
            let text = timeout(PATIENCE, response.text()).await.expect("a body in time").expect("a body");
            return Page { status, address: url.to_string(), path: path_of(&url), headers, body: text };
        }
        panic!("more than {MAX_REDIRECTS} redirects, the last to {url}");
    }

    fn keep_cookies(&self, headers: &HeaderMap) {
        let mut jar = self.cookies.lock().expect("no holder panicked");
        for cookie in headers.get_all("set-cookie") {
            let cookie = cookie.to_str().expect("a readable cookie");
            let mut parts = cookie.split(';').map(str::trim);
            let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).expect("a cookie's name");
            let attributes: Vec<String> = parts.map(str::to_ascii_lowercase).collect();
            let secure = attributes.iter().any(|attribute| attribute == "secure");
            assert!(
                !secure || self.base.scheme() == "https",
                "a browser drops a Secure cookie here: {cookie}"
            );
            if value.is_empty() || attributes.iter().any(|attribute| attribute == "max-age=0") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

struct Body {
    content_type: &'static str,
    text: String,
}

fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

fn encode(fields: &[(String, String)]) -> String {
    let mut url = Url::parse("http://form/").expect("a URL");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// An answer, with what a test may ask of it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Its status.
    pub(crate) status: StatusCode,
    /// The full address at which it was found, after redirects.
    pub(crate) address: String,
    /// Path and query of it.
    pub(crate) path: String,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// Its text.
    pub(crate) body: String,
}

impl Page {
    /// Itself, if it has this status; else the test fails and shows the page.
    pub(crate) fn expect_status(self, status: StatusCode) -> Self {
        assert_eq!(self.status, status, "{}:\n{}", self.path, self.body);
        self
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a readable header"))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// Whether there is an element for a selector.
    pub(crate) fn has(&self, css: &str) -> bool {
        self.html().select(&selector(css)).next().is_some()
    }

    /// The text of each element for a selector, whitespace joined.
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        self.html().select(&selector(css)).map(text_of).collect()
    }

    /// The text of the only element for a selector.
    pub(crate) fn text(&self, css: &str) -> String {
        let mut texts = self.texts(css);
        assert_eq!(texts.len(), 1, "`{css}` in {}:\n{}", self.path, self.body);
        texts.remove(0)
    }

    /// An attribute of each element for a selector that has it.
    pub(crate) fn attributes(&self, css: &str, name: &str) -> Vec<String> {
        let html = self.html();
        html.select(&selector(css)).filter_map(|element| element.attr(name)).map(str::to_owned).collect()
    }

    /// The address of the only link with this text.
    pub(crate) fn link(&self, text: &str) -> String {
        let html = self.html();
        let found: Vec<String> = html
            .select(&selector("a[href]"))
            .filter(|link| text_of(*link) == text)
            .filter_map(|link| link.attr("href").map(str::to_owned))
            .collect();
        match found.as_slice() {
            [] => panic!("no link `{text}` in {}:\n{}", self.path, self.body),
            [address, others @ ..] => {
                assert!(others.iter().all(|other| other == address), "`{text}` leads to {found:?}");
                address.clone()
            }
        }
    }

    /// The only form for a selector, filled as the page fills it.
    pub(crate) fn form(&self, css: &str) -> Form {
        let html = self.html();
        let selector = selector(css);
        let mut forms = html.select(&selector);
        let form = forms.next().unwrap_or_else(|| panic!("no form `{css}` in {}:\n{}", self.path, self.body));
        assert!(forms.next().is_none(), "more than one form `{css}` in {}:\n{}", self.path, self.body);
        assert_eq!(form.value().name(), "form", "`{css}` selects something else");
        let method = match form.attr("method").unwrap_or("get").to_ascii_lowercase().as_str() {
            "get" => Method::GET,
            "post" => Method::POST,
            other => panic!("a form with the method {other}"),
        };
        assert!(form.attr("enctype").is_none(), "only plain forms are known here");
        let page = Url::parse(&self.address).expect("the page's address");
        let address = page.join(form.attr("action").unwrap_or_default()).expect("the form's address");
        Form { address: address.to_string(), method, controls: controls(form) }
    }

    fn html(&self) -> Html {
        if self.body.trim_start().to_ascii_lowercase().starts_with("<!doctype") {
            Html::parse_document(&self.body)
        } else {
            Html::parse_fragment(&self.body)
        }
    }
}

fn selector(css: &str) -> Selector {
    Selector::parse(css).unwrap_or_else(|error| panic!("`{css}`: {error}"))
}

fn text_of(element: ElementRef<'_>) -> String {
    element.text().flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// One thing in a form that can be sent.
#[derive(Clone, Debug)]
struct Control {
    name: String,
    /// The value; where it can be chosen or not (boxes, radios, buttons), the value when it is.
    value: String,
    sent: bool,
    choice: bool,
}

fn controls(form: ElementRef<'_>) -> Vec<Control> {
    let mut found = Vec::new();
    for element in form.select(&selector("input, textarea, select, button")) {
        let Some(name) = element.attr("name") else { continue };
        if element.attr("disabled").is_some() {
            continue;
        }
        let name = name.to_owned();
        let value = element.attr("value").map(str::to_owned);
        let kind = match element.value().name() {
            "input" => element.attr("type").unwrap_or("text"),
            other => other,
        };
        match kind {
            "textarea" => {
                let text: String = element.text().collect();
                // HTML drops the first line break of a text area.
                let text = text.strip_prefix('\n').unwrap_or(&text).to_owned();
                found.push(Control { name, value: text, sent: true, choice: false });
            }
            "select" => {
                let options: Vec<_> = element.select(&selector("option")).collect();
                let chosen = options.iter().find(|o| o.attr("selected").is_some()).or(options.first());
                let value = chosen.map(|o| o.attr("value").map_or_else(|| text_of(*o), str::to_owned));
                found.push(Control { name, value: value.unwrap_or_default(), sent: true, choice: false });
            }
            "checkbox" | "radio" => {
                let sent = element.attr("checked").is_some();
                found.push(Control { name, value: value.unwrap_or_else(|| "on".into()), sent, choice: true });
            }
            "submit" | "button" => {
                found.push(Control { name, value: value.unwrap_or_default(), sent: false, choice: true });
            }
            _ => found.push(Control { name, value: value.unwrap_or_default(), sent: true, choice: false }),
        }
    }
    found
}

/// A form as found in a page. A test can only fill in what the page offers.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    address: String,
    method: Method,
    controls: Vec<Control>,
}

impl Form {
    /// The names of what can be filled in or chosen.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.controls.iter().map(|control| control.name.as_str()).collect()
    }

    /// The path it is sent to.
    pub(crate) fn path(&self) -> String {
        path_of(&Url::parse(&self.address).expect("a form's address"))
    }

    /// The value of a field as it stands.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.controls.iter().find(|control| control.name == name && control.sent).map(|c| c.value.as_str())
    }

    /// Fills in a field. Of several with the same name, the first.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let names = format!("{:?}", self.names());
        let control = self.controls.iter_mut().find(|control| control.name == name && !control.choice);
        control.unwrap_or_else(|| panic!("no field `{name}` among {names}")).value = value.to_owned();
        self
    }

    /// Ticks a box, picks a radio, or presses a button. Others of a radio's name are released.
    pub(crate) fn choose(mut self, name: &str, value: &str) -> Self {
        let fits = |control: &Control| control.name == name && control.choice && control.value == value;
        assert!(self.controls.iter().any(fits), "no choice `{name}` = `{value}` in {:?}", self.controls);
        for control in &mut self.controls {
            if control.name == name && control.choice {
                control.sent = control.value == value;
            }
        }
        self
    }

    fn encoded(&self) -> String {
        let sent = self.controls.iter().filter(|control| control.sent);
        encode(&sent.map(|control| (control.name.clone(), control.value.clone())).collect::<Vec<_>>())
    }
}

/// An open event stream.
pub(crate) struct Events {
    stream: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// The next message; `None` when the stream has ended. The test fails if neither comes.
    pub(crate) async fn next(&mut self) -> Option<Sse> {
        let next = timeout(PATIENCE, self.stream.next()).await.expect("a message in time");
        next.map(|message| message.expect("a readable message"))
    }

    /// The next message whose data is as wanted; earlier ones are passed over.
    pub(crate) async fn next_with(&mut self, wanted: impl Fn(&str) -> bool) -> Sse {
        loop {
            let message = self.next().await.expect("the stream goes on until the wanted message");
            if message.data.as_deref().is_some_and(&wanted) {
                return message;
            }
        }
    }
}
