//! Checks of requests: the host, and for changes the origin and the token.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

/// Reason for refusing a request, with its status.
pub(crate) type Refusal = (StatusCode, String);

/// Refuses a request to a name that is not this machine's: a site can make its own name point to this address, and its
/// scripts could then read what the page shows (DNS rebinding). Addresses cannot be made to do so. `names` are further
/// names.
///
/// # Errors
/// 421 with the name.
pub(crate) fn host(headers: &HeaderMap, names: &[String]) -> Result<(), Refusal> {
    let Some(host) = headers.get(HOST) else { return Ok(()) };
    let text = host.to_str().unwrap_or_default();
    let name = without_port(text);
    let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    if is_address || is("localhost") || names.iter().any(|known| is(known)) {
        return Ok(());
    }
    Err((
        StatusCode::MISDIRECTED_REQUEST,
        format!(
            "The host {text:?} is not known here. Use the IP address or localhost, or start with --page-host NAME."
        ),
    ))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Refuses a change that a page of another site asks for, and one without the token. `is_token` compares.
///
/// # Errors
/// 403 or 401, with what to do.
pub(crate) fn change(headers: &HeaderMap, is_token: impl Fn(&[u8]) -> bool, path: &str) -> Result<(), Refusal> {
    if let Some(origin) = headers.get(ORIGIN) {
        let own = headers.get(HOST).and_then(|host| host.to_str().ok()).map(|host| format!("http://{host}"));
        if own.is_none_or(|own| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())) {
            return Err((StatusCode::FORBIDDEN, "A page of another site may not change this gateway.".to_owned()));
        }
    }
    let given = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
    if given.strip_prefix(b"Bearer ").is_some_and(is_token) {
        return Ok(());
    }
    Err((
        StatusCode::UNAUTHORIZED,
        format!(
            "A change needs the token that this gateway wrote to {path}: the header `Authorization: Bearer TOKEN`."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn addresses_and_known_names_are_hosts_and_others_are_not() {
        let names = ["gw.lan".to_owned()];
        for ours in ["127.0.0.1:9480", "127.0.0.1", "[::1]:9480", "[::1]", "LocalHost:1", "192.0.2.1", "GW.lan:80"] {
            assert_eq!(host(&headers(&[("host", ours)]), &names), Ok(()), "{ours}");
        }
        for theirs in
            ["evil.example", "evil.example:9480", "localhost.evil.example", "127.0.0.1.evil.example", "", "::x"]
        {
            let (status, why) = host(&headers(&[("host", theirs)]), &names).unwrap_err();
            assert!(status == 421 && why.contains(&format!("{theirs:?}")), "{theirs}: {why}");
        }
        assert_eq!(host(&headers(&[]), &names), Ok(()));
    }

    #[test]
    fn a_change_needs_the_token_and_comes_from_no_other_site() {
        let asked =
            |pairs: &[(&'static str, &str)]| change(&headers(pairs), |given| given == b"secret", "/run/x.token");
        let (host, token) = (("host", "[::1]:9480"), ("authorization", "Bearer secret"));
        assert_eq!(asked(&[host, token]), Ok(()));
        assert_eq!(asked(&[host, token, ("origin", "http://[::1]:9480")]), Ok(()));
        for origin in ["http://evil.example", "https://[::1]:9480", "null", "http://[::1]:94801"] {
            assert_eq!(asked(&[host, token, ("origin", origin)]).unwrap_err().0, 403, "{origin}");
        }
        for wrong in ["Bearer secre", "Bearer secrett", "secret", "Basic secret", "Bearer ", ""] {
            let (status, why) = asked(&[host, ("authorization", wrong)]).unwrap_err();
            assert!(status == 401 && why.contains("/run/x.token"), "{wrong}");
        }
        assert_eq!(asked(&[host]).unwrap_err().0, 401);
    }
}
