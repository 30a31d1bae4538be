//! What can be found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A private key in PEM or PGP armour.
    PrivateKey,
    /// A key or token with its provider's prefix, such as `AKIA…`, `ghp_…`, `sk-…`.
    ApiKey,
    /// A JSON Web Token whose header says so.
    Jwt,
    /// A password: in a URL, or assigned to a name that says so.
    Password,
    /// A random value that is assigned to a name such as `api_key`, or sent as a bearer token.
    Secret,
    /// A payment card's number: a known issuer's prefix and length, and a right check digit (Luhn).
    Card,
    /// An international bank account number: its country's length, and right check digits (modulo 97).
    Iban,
    /// A social security number of the United States.
    Ssn,
    /// An e-mail address.
    Email,
    /// A telephone number: international with `+`, or in North America's form.
    Phone,
    /// An IPv4 address that is routed in public.
    IpAddress,
}

impl Kind {
    /// All kinds; where two would match the same text, the earlier one counts.
    pub const ALL: [Kind; 11] = [
        Kind::PrivateKey,
        Kind::ApiKey,
        Kind::Jwt,
        Kind::Password,
        Kind::Secret,
        Kind::Card,
        Kind::Iban,
        Kind::Ssn,
        Kind::Email,
        Kind::Phone,
        Kind::IpAddress,
    ];

    /// What gives access to something.
    pub const SECRETS: [Kind; 5] = [Kind::PrivateKey, Kind::ApiKey, Kind::Jwt, Kind::Password, Kind::Secret];

    /// What leads to a person.
    pub const PERSONAL: [Kind; 5] = [Kind::Card, Kind::Iban, Kind::Ssn, Kind::Email, Kind::Phone];

    /// Its word in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::PrivateKey => "private_key",
            Kind::ApiKey => "api_key",
            Kind::Jwt => "jwt",
            Kind::Password => "password",
            Kind::Secret => "secret",
            Kind::Card => "card",
            Kind::Iban => "iban",
            Kind::Ssn => "ssn",
            Kind::Email => "email",
            Kind::Phone => "phone",
            Kind::IpAddress => "ip_address",
        }
    }

    /// The word that stands in its place in masked text, without brackets.
    pub fn marker(self) -> &'static str {
        match self {
            Kind::PrivateKey | Kind::ApiKey => "KEY",
            Kind::Jwt => "TOKEN",
            Kind::Password => "PASSWORD",
            Kind::Secret => "SECRET",
            Kind::Card => "CARD",
            Kind::Iban => "IBAN",
            Kind::Ssn => "SSN",
            Kind::Email => "EMAIL",
            Kind::Phone => "PHONE",
            Kind::IpAddress => "IP",
        }
    }
}
