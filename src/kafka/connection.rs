use std::collections::BTreeMap;

use rdkafka::ClientConfig;

use super::{Mechanism, SaslConfig, TlsConfig};
use crate::secret::SecretError;

/// Properties that a section's brokers, `tls` and `sasl` set.
const OWN_PROPERTIES: [&str; 10] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "opaque",
];

/// The part of a section that says which brokers, and how to be let in.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// The section's key, such as `emit.kafka`; messages name it.
    pub section: &'static str,
    /// Brokers to begin with.
    pub brokers: &'a [String],
    /// Encryption.
    pub tls: Option<&'a TlsConfig>,
    /// Login.
    pub sasl: Option<&'a SaslConfig>,
    /// Other properties of librdkafka.
    pub properties: &'a BTreeMap<String, String>,
}

impl Connection<'_> {
    /// Adds what is wrong. `own` are the properties that the section sets itself beyond those of this connection.
    pub fn check(&self, own: &[&str], problems: &mut Vec<String>) {
        let section = self.section;
        if self.brokers.is_empty() || self.brokers.iter().any(|broker| broker.trim().is_empty()) {
            problems.push(format!("{section}.brokers must name at least one broker, as host:port"));
        }
        self.check_security(cfg!(feature = "kafka-tls"), problems);
        for name in self.properties.keys() {
            if OWN_PROPERTIES.contains(&name.as_str()) || own.contains(&name.as_str()) {
                problems.push(format!("{section}.properties must not set {name}: {section} sets it itself"));
            } else if name.contains("password") || name.contains("secret") || name.ends_with(".pem") {
                problems.push(format!(
                    "{section}.properties must not set {name}: secrets belong in {section}.sasl or {section}.tls"
                ));
            }
        }
    }

    fn check_security(&self, with_tls: bool, problems: &mut Vec<String>) {
        let section = self.section;
        let missing =
            "needs a build with `--features kafka-tls` (or kafka-tls-vendored), which this one is not";
        if self.tls.is_some() && !with_tls {
            problems.push(format!("{section}.tls {missing}"));
        }
        if let Some(sasl) = self.sasl
            && sasl.mechanism != Mechanism::Plain
            && !with_tls
        {
            problems.push(format!("{section}.sasl.mechanism ({}) {missing}", sasl.mechanism.as_str()));
        }
        if let Some(tls) = self.tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            problems.push(format!("{section}.tls needs both certificate and key, or neither"));
        }
    }

    /// librdkafka's properties for it, the section's own not yet among them. Reads the secrets.
    pub fn client(&self) -> Result<ClientConfig, SecretError> {
        let mut client = ClientConfig::new();
        client.extend(self.properties.clone());
        client.set("bootstrap.servers", self.brokers.join(","));
        if !self.properties.contains_key("client.id") {
            client.set("client.id", "assayd");
        }
        let protocol = match (self.tls, self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        client.set("security.protocol", protocol);
        if let Some(tls) = self.tls {
            set_tls(&mut client, tls)?;
        }
        if let Some(sasl) = self.sasl {
            client
                .set("sasl.mechanism", sasl.mechanism.as_str())
                .set("sasl.username", &sasl.username)
                .set("sasl.password", sasl.password.reveal()?.expose());
        }
        Ok(client)
    }
}

fn set_tls(client: &mut ClientConfig, tls: &TlsConfig) -> Result<(), SecretError> {
    let files = [
        ("ssl.ca.location", &tls.ca),
        ("ssl.certificate.location", &tls.certificate),
        ("ssl.key.location", &tls.key),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            client.set(name, path.to_string_lossy());
        }
    }
    if let Some(password) = &tls.key_password {
        client.set("ssl.key.password", password.reveal()?.expose());
    }
    Ok(())
}

/// Adds a sentence if `topic`, the value of `key`, cannot be a topic's name.
pub fn check_topic(key: &str, topic: &str, problems: &mut Vec<String>) {
    let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    let is_dots = topic == "." || topic == "..";
    if topic.is_empty() || topic.len() > 249 || is_dots || !topic.chars().all(legal) {
        problems.push(format!(
            "{key} ({topic:?}) is not a topic's name: 1 to 249 letters, digits, dots, underscores and hyphens"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn scram() -> SaslConfig {
        let password = Secret::Env("PASSWORD".into());
        SaslConfig { mechanism: Mechanism::ScramSha512, username: "me".into(), password }
    }

    #[test]
    fn tls_and_scram_are_refused_by_a_build_that_has_neither() {
        let (brokers, tls, sasl) = (["a:9093".to_owned()], TlsConfig::default(), scram());
        let properties = BTreeMap::new();
        let connection = Connection {
            section: "emit.kafka",
            brokers: &brokers,
            tls: Some(&tls),
            sasl: Some(&sasl),
            properties: &properties,
        };
        let mut found = Vec::new();
        connection.check_security(false, &mut found);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|problem| problem.contains("--features kafka-tls")), "{found:?}");
        found.clear();
        connection.check_security(true, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_password_comes_from_its_file_and_a_missing_one_is_told_without_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let (brokers, properties) = (["a:9092".to_owned(), "b:9092".to_owned()], BTreeMap::new());
        let mut sasl = SaslConfig { password: Secret::File(file.path().to_owned()), ..scram() };
        let client = |sasl: &SaslConfig| {
            Connection {
                section: "relay",
                brokers: &brokers,
                tls: None,
                sasl: Some(sasl),
                properties: &properties,
            }
            .client()
        };
        let found = client(&sasl).unwrap();
        assert_eq!(found.get("security.protocol"), Some("sasl_plaintext"));
        assert_eq!(found.get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(found.get("sasl.password"), Some("hunter2"));
        assert_eq!(found.get("bootstrap.servers"), Some("a:9092,b:9092"));
        sasl.password = Secret::File("/no/such/file".into());
        assert!(client(&sasl).unwrap_err().to_string().contains("/no/such/file"));
    }
}
