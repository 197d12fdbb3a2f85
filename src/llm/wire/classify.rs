//! One reading of errors, whether they come as an HTTP body or inside a stream.

use super::Asked;
use crate::llm::{LlmError, LlmErrorKind};
use serde_json::Value;
use std::time::Duration;

/// What an error body says. `status` is the HTTP status; `None` for an error inside an answer that began well,
/// which is judged by the status it names itself.
pub(in crate::llm) fn classify(asked: &Asked<'_>, status: Option<u16>, body: &str) -> LlmError {
    let Some(said) = Said::read(body) else {
        let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or("an empty body");
        let kind = status.map_or(LlmErrorKind::Malformed, by_status);
        return LlmError { status, ..asked.fault(kind, &format!("not the expected answer: {first}")) };
    };
    let status = status.or(said.status);
    let kind = said.kind(status);
    let retry_after = said.delay();
    let code = said.code.map(|code| asked.without_key(&code));
    LlmError { status, code, retry_after, ..asked.fault(kind, &said.message) }
}

fn by_status(status: u16) -> LlmErrorKind {
    match status {
        401 | 403 => LlmErrorKind::Key,
        402 => LlmErrorKind::Quota,
        404 => LlmErrorKind::ModelNotFound,
        408 | 499 | 504 => LlmErrorKind::TimedOut,
        429 => LlmErrorKind::RateLimited,
        500.. => LlmErrorKind::Overloaded,
        _ => LlmErrorKind::BadRequest,
    }
}

/// An error as its body tells it.
struct Said {
    status: Option<u16>,
    code: Option<String>,
    message: String,
    /// `ErrorInfo` reasons, such as `API_KEY_INVALID`.
    reasons: Vec<String>,
    /// Ids of the quotas that were hit; they tell a day's from a minute's.
    quotas: Vec<String>,
    /// `RetryInfo` delay, such as `36s`.
    delay: Option<String>,
}

impl Said {
    /// Reads `{"error":{…}}`, the same in a list, and `{"error":"text"}`.
    fn read(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let outer = match &value {
            Value::Array(items) => items.first()?,
            other => other,
        };
        let error = outer.get("error")?;
        if let Value::String(message) = error {
            return Some(Self::new(message.clone()));
        }
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let details = error.get("details").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let of_details =
            |name: &str| details.iter().filter_map(|detail| detail.get(name)).collect::<Vec<_>>();
        let strings =
            |values: Vec<&Value>| values.into_iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let violations: Vec<&Value> =
            of_details("violations").into_iter().filter_map(Value::as_array).flatten().collect();
        Some(Self {
            status: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
            code: text("status").or_else(|| text("code")).or_else(|| text("type")),
            reasons: strings(of_details("reason")),
            quotas: strings(
                violations.into_iter().filter_map(|violation| violation.get("quotaId")).collect(),
            ),
            delay: of_details("retryDelay").first().and_then(|delay| delay.as_str()).map(str::to_owned),
            ..Self::new(text("message").unwrap_or_default())
        })
    }

    fn new(message: String) -> Self {
        Self { status: None, code: None, message, reasons: Vec::new(), quotas: Vec::new(), delay: None }
    }

    fn kind(&self, status: Option<u16>) -> LlmErrorKind {
        if self.reasons.iter().any(|reason| reason == "API_KEY_INVALID") {
            return LlmErrorKind::Key;
        }
        match (status, self.code.as_deref()) {
            // Free use is not offered where the person is, or billing is off.
            (Some(400), Some("FAILED_PRECONDITION")) => LlmErrorKind::Quota,
            (Some(429), _) if self.for_long() => LlmErrorKind::Quota,
            (Some(status), _) => by_status(status),
            (None, Some("UNAVAILABLE" | "INTERNAL")) => LlmErrorKind::Overloaded,
            (None, Some("RESOURCE_EXHAUSTED")) if self.for_long() => LlmErrorKind::Quota,
            (None, Some("RESOURCE_EXHAUSTED")) => LlmErrorKind::RateLimited,
            (None, _) => LlmErrorKind::CutOff,
        }
    }

    /// A day's quota, or one of zero. A short delay often comes along with it, and does not help.
    fn for_long(&self) -> bool {
        self.quotas.iter().any(|quota| quota.contains("PerDay")) || names_a_limit_of_zero(&self.message)
    }

    fn delay(&self) -> Option<Duration> {
        self.delay.as_deref().and_then(duration).or_else(|| {
            let (_, after) = self.message.split_once("retry in ")?;
            duration(after.split_whitespace().next()?.trim_end_matches(['.', ',']))
        })
    }
}

fn names_a_limit_of_zero(message: &str) -> bool {
    message.split("limit: ").skip(1).any(|after| {
        after
            .strip_prefix('0')
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    })
}

/// `36s`, `34.07s`, `900ms`.
fn duration(text: &str) -> Option<Duration> {
    let seconds = if let Some(millis) = text.strip_suffix("ms") {
        millis.parse::<f64>().ok()? / 1000.0
    } else {
        text.strip_suffix('s')?.parse::<f64>().ok()?
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Service;
    use secrecy::SecretString;

    fn told(status: Option<u16>, body: &str) -> LlmError {
        let key = SecretString::from("CANARY-KEY");
        let service: &Service =
            &Service { label: "Gemini", key_setting: "GEMINI_API_KEY", model_setting: "GEMINI_MODEL" };
        let error = classify(&Asked { service, model: "m-1", key: &key }, status, body);
        let shown = format!("{error:?} {error} {}", error.sentence());
        assert!(!shown.contains("CANARY-KEY"), "the key is in {shown}");
        error
    }

    fn kind(status: u16, body: &str) -> LlmErrorKind {
        told(Some(status), body).kind
    }

    fn quota(ids: &str, message: &str, delay: &str) -> String {
        format!(
            r#"{{"error":{{"code":429,"message":"{message}","status":"RESOURCE_EXHAUSTED","details":[
            {{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"{ids}"}}]}},
            {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}}}"#
        )
    }

    #[test]
    fn a_wrong_key_is_told_apart_from_a_bad_request_although_both_are_400() {
        let wrong = r#"{"error":{"code":400,"message":"API key not valid: CANARY-KEY.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#;
        let error = told(Some(400), wrong);
        assert_eq!(error.kind, LlmErrorKind::Key);
        assert!(error.sentence().contains("GEMINI_API_KEY"));
        assert!(!error.retryable());
        let bad = r#"{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}"#;
        assert_eq!(kind(400, bad), LlmErrorKind::BadRequest);
        assert_eq!(
            kind(400, r#"{"error":{"code":400,"message":"no free tier","status":"FAILED_PRECONDITION"}}"#),
            LlmErrorKind::Quota
        );
        for status in [401, 403] {
            assert_eq!(kind(status, r#"{"error":{"message":"blocked"}}"#), LlmErrorKind::Key);
        }
    }

    #[test]
    fn a_minutes_limit_waits_as_told_and_a_days_quota_does_not_wait() {
        let minute = told(Some(429), &quota("RequestsPerMinute-FreeTier", "limit: 20", "36s"));
        assert_eq!(
            (minute.kind, minute.retry_after),
            (LlmErrorKind::RateLimited, Some(Duration::from_secs(36)))
        );
        assert_eq!(
            kind(429, &quota("GenerateRequestsPerDayPerProject", "limit: 20", "2s")),
            LlmErrorKind::Quota
        );
        assert_eq!(kind(429, &quota("PerMinute", "limit: 0, model: x", "2s")), LlmErrorKind::Quota);
        assert_eq!(kind(429, &quota("PerMinute", "limit: 0.5", "2s")), LlmErrorKind::RateLimited);
        let text = told(Some(429), r#"{"error":{"code":429,"message":"Please retry in 900ms."}}"#);
        assert_eq!(text.retry_after, Some(Duration::from_millis(900)));
        let bare =
            told(Some(429), r#"{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}"#);
        assert_eq!((bare.kind, bare.retry_after), (LlmErrorKind::RateLimited, None));
        let odd = told(Some(429), &quota("PerMinute", "x", "-3s"));
        assert_eq!((odd.kind, odd.retry_after), (LlmErrorKind::RateLimited, None));
    }

    #[test]
    fn lists_texts_html_and_nothing_are_read_too() {
        assert_eq!(kind(503, r#"[{"error":{"code":503,"status":"UNAVAILABLE"}}]"#), LlmErrorKind::Overloaded);
        assert_eq!(kind(404, r#"{"error":"model 'x' not found"}"#), LlmErrorKind::ModelNotFound);
        assert_eq!(kind(404, "[]"), LlmErrorKind::ModelNotFound);
        let html = told(Some(502), "\n<html>CANARY-KEY\n<body>");
        assert_eq!(html.kind, LlmErrorKind::Overloaded);
        assert!(html.sentence().contains("<html>[key]"), "{}", html.sentence());
        assert_eq!(told(None, "").kind, LlmErrorKind::Malformed);
        assert_eq!(kind(504, "{}"), LlmErrorKind::TimedOut);
        assert_eq!(kind(402, "{}"), LlmErrorKind::Quota);
    }

    #[test]
    fn an_error_inside_an_answer_is_judged_by_the_status_it_names() {
        let error = told(None, r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#);
        assert_eq!((error.kind, error.status), (LlmErrorKind::Overloaded, Some(503)));
        assert_eq!(told(None, r#"{"error":{"status":"UNAVAILABLE"}}"#).kind, LlmErrorKind::Overloaded);
        assert_eq!(told(None, r#"{"error":{"message":"?"}}"#).kind, LlmErrorKind::CutOff);
        assert_eq!(told(None, r#"{"error":{"code":99999999999}}"#).kind, LlmErrorKind::CutOff);
    }

    #[test]
    fn a_long_message_is_cut_and_says_so() {
        let body = format!(r#"{{"error":{{"code":400,"message":"{}\u0000\n x"}}}}"#, "é".repeat(3000));
        let error = told(Some(400), &body);
        assert_eq!(error.message.chars().count(), 501);
        assert!(error.message.ends_with('…'));
    }
}
