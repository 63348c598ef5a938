//! Bearer tokens: those of listeners, and those of ServiceAccounts.
//!
//! The token of a ServiceAccount is a JSON web token with the claims of the real server. It is good until its time is over
//! or the account, or what it is bound to, is gone. It is signed by a key of the server's own (HS256): nobody else can check
//! it, which the real server's keys allow.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::meta::{self, text_at};
use crate::server::{ApiServer, User};

/// Who issues tokens, and the audience of those that are for this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// A token ends so many seconds after the pod that it is bound to should have gone.
const LEEWAY: i64 = 60;

/// The tokens that a server takes.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Those of the listeners that are there.
    listeners: BTreeSet<String>,
    key: [u8; 32],
    /// Whether nobody can work out the key from the seed.
    #[cfg(feature = "listener")]
    is_secret: bool,
}

/// What a token of a ServiceAccount is bound to, beside the account.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// `pod`, `secret` or `node`, each with its name and uid; the uid of a node that is not there is empty.
    pub(crate) to: Vec<(&'static str, String, String)>,
}

/// What a token says of its time, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) from: i64,
    pub(crate) until: i64,
}

/// Who brings a token, and the audiences that it is for.
pub(crate) struct Bearer {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

// === impl Tokens ===

impl Tokens {
    /// The key follows from the seed: within the process nobody needs to be kept out, and runs repeat.
    pub(crate) fn seeded(seed: u64) -> Self {
        let key = Sha256::new().chain_update(b"ServiceAccount tokens").chain_update(seed.to_le_bytes()).finalize();
        Self {
            listeners: BTreeSet::new(),
            key: key.into(),
            #[cfg(feature = "listener")]
            is_secret: false,
        }
    }

    /// Takes a listener's token. From the first one on, ServiceAccounts' tokens are signed by `key`, which nobody knows.
    #[cfg(feature = "listener")]
    pub(crate) fn accept(&mut self, token: &str, key: [u8; 32]) {
        self.listeners.insert(token.to_owned());
        if !self.is_secret {
            (self.key, self.is_secret) = (key, true);
        }
    }

    /// Takes a listener's token no longer.
    #[cfg(feature = "listener")]
    pub(crate) fn forget(&mut self, token: &str) {
        self.listeners.remove(token);
    }

    fn mac(&self, signed: &str) -> Option<Hmac<Sha256>> {
        // A key of any length will do.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(signed.as_bytes());
        Some(mac)
    }

    fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
        let signature = self.mac(&signed).map(|mac| URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        format!("{signed}.{}", signature.unwrap_or_default())
    }

    /// The claims of a token that is signed by this server's key.
    fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.mac(signed)?.verify_slice(&signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

impl ApiServer {
    /// A new token of a ServiceAccount.
    pub(crate) fn issue_token(&self, account: &Value, audiences: &[String], period: Period, bound: &Bound) -> String {
        let (namespace, name) = (meta::namespace(account), meta::name(account));
        let mut about =
            json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": meta::text(account, "uid")}});
        if let Some(about) = about.as_object_mut() {
            about.extend(bound.to.iter().map(|(kind, name, uid)| {
                let uid = Some(uid).filter(|uid| !uid.is_empty());
                let named = uid.map_or_else(|| json!({"name": name}), |uid| json!({"name": name, "uid": uid}));
                ((*kind).to_owned(), named)
            }));
        }
        let claims = json!({"aud": audiences, "exp": period.until, "iat": period.from, "iss": ISSUER,
            "jti": self.inner.entropy.uid(), "kubernetes.io": about, "nbf": period.from,
            "sub": format!("system:serviceaccount:{namespace}:{name}")});
        self.inner.tokens.lock().sign(&claims)
    }

    /// Who may use this server with a token: the default user with a listener's, else a ServiceAccount.
    #[cfg(feature = "listener")]
    pub(crate) fn token_user(&self, token: &str) -> Option<User> {
        let bearer = self.bearer(token)?;
        bearer.audiences.iter().any(|audience| audience == ISSUER).then_some(bearer.user)
    }

    /// Whose token it is, whatever it is for.
    pub(crate) fn bearer(&self, token: &str) -> Option<Bearer> {
        let tokens = self.inner.tokens.lock();
        if tokens.listeners.contains(token) {
            return Some(Bearer { user: self.inner.config.user.clone(), audiences: vec![ISSUER.to_owned()] });
        }
        let claims = tokens.claims(token)?;
        drop(tokens);
        self.bearer_of(&claims)
    }

    fn bearer_of(&self, claims: &Value) -> Option<Bearer> {
        let now = self.now().as_second();
        let of = |field: &str| meta::int_at(claims, &[field]);
        if of("exp")? < now || of("nbf")? > now {
            return None;
        }
        let text = |path: &[&str]| text_at(claims, &[&["kubernetes.io"], path].concat()).to_owned();
        let namespace = text(&["namespace"]);
        let (name, uid) = (text(&["serviceaccount", "name"]), text(&["serviceaccount", "uid"]));
        let mut extra = BTreeMap::new();
        let mut tell = |key: &str, value: String| {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
        };
        tell("credential-id", format!("JTI={}", text_at(claims, &["jti"])));
        self.is_still("serviceaccounts", &format!("{namespace}/{name}"), &uid, now)?;
        for (kind, storage) in [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")] {
            let (of, uid) = (text(&[kind, "name"]), text(&[kind, "uid"]));
            if of.is_empty() {
                continue;
            }
            // The node of a pod is told, and nothing depends on it.
            let is_of_pod = kind == "node" && !text(&["pod", "name"]).is_empty();
            if !is_of_pod {
                let key = if kind == "node" { of.clone() } else { format!("{namespace}/{of}") };
                self.is_still(storage, &key, &uid, now)?;
            }
            if kind != "secret" {
                tell(&format!("{kind}-name"), of);
                if !uid.is_empty() {
                    tell(&format!("{kind}-uid"), uid);
                }
            }
        }
        let audiences = meta::list_at(claims, &["aud"]).iter().filter_map(Value::as_str).map(str::to_owned);
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid,
            groups: groups.into_iter().chain(["system:authenticated".to_owned()]).collect(),
            extra,
        };
        Some(Bearer { user, audiences: audiences.collect() })
    }

    /// That an object is the one that a token was made for, and is not long due to be gone.
    fn is_still(&self, storage: &str, key: &str, uid: &str, now: i64) -> Option<()> {
        let object = self.value(storage, key)?;
        let ends = meta::text(&object, "deletionTimestamp").parse::<jiff::Timestamp>().ok();
        let is_over = ends.is_some_and(|end| end.as_second() + LEEWAY < now);
        (meta::text(&object, "uid") == uid && !is_over).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_whose_claims_or_key_are_another_is_refused() {
        let (mut tokens, other) = (Tokens::seeded(1), Tokens::seeded(2));
        let claims = json!({"sub": "system:serviceaccount:a:b", "exp": 5});
        let token = tokens.sign(&claims);
        assert_eq!(tokens.claims(&token), Some(claims));
        assert_eq!(other.claims(&token), None);
        let parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(json!({"sub": "system:serviceaccount:a:c", "exp": 5}).to_string());
        for bad in [
            format!("{}.{forged}.{}", parts[0], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(tokens.claims(&bad), None, "{bad}");
        }
        tokens.accept("listener's", [7; 32]);
        assert_eq!(tokens.claims(&token), None, "a key that follows from the seed outlived the first listener");
        let token = tokens.sign(&json!({}));
        tokens.accept("another's", [8; 32]);
        assert!(tokens.claims(&token).is_some(), "a second listener ended the tokens of the first");
    }
}
