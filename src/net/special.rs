//! Where the daemon does not go when others had a say in the address: link-local addresses, which cloud machines ask for their own credentials, and what is no
//! machine at all. Checked on the address that is connected to, so that a name cannot be bent after the check.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Decides on addresses, and resolves names to those that may be connected to.
#[derive(Debug, Clone)]
pub struct AddressGuard {
    allowed: Arc<[IpAddr]>,
    advice: &'static str,
}

/// No address of a name may be connected to.
#[derive(Debug)]
struct Refused {
    host: String,
    address: IpAddr,
    advice: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { host, address, advice } = self;
        write!(f, "{host} is at {address}, a link-local, metadata or special address; {advice}")
    }
}

impl Error for Refused {}

impl AddressGuard {
    /// A guard that lets these special addresses through. `advice` ends the message of a refusal.
    pub fn new(allowed: Vec<IpAddr>, advice: &'static str) -> Self {
        Self { allowed: allowed.into(), advice }
    }

    /// A URL whose host is an address is never resolved, so it is checked here.
    pub fn admit_literal(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
            return Ok(());
        };
        if self.admits(address) {
            return Ok(());
        }
        Err(Refused { host: "the url's host".to_owned(), address, advice: self.advice }.to_string())
    }

    fn admits(&self, address: IpAddr) -> bool {
        self.allowed.contains(&address) || !is_special(address)
    }

    /// Whether a request failed since a guard refused its address.
    pub fn has_refused(error: &reqwest::Error) -> bool {
        let mut cause = error.source();
        while let Some(inner) = cause {
            if inner.is::<Refused>() {
                return true;
            }
            cause = inner.source();
        }
        false
    }
}

impl Resolve for AddressGuard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let first = found.first().map(|address| address.ip());
            let good: Vec<SocketAddr> =
                found.into_iter().filter(|address| guard.admits(address.ip())).collect();
            match first {
                Some(address) if good.is_empty() => {
                    Err(Box::new(Refused { host, address, advice: guard.advice })
                        as Box<dyn Error + Send + Sync>)
                }
                _ => Ok(Box::new(good.into_iter()) as Addrs),
            }
        })
    }
}

/// AWS, Azure and Google serve metadata at link-local addresses; these clouds elsewhere too.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

fn is_special(address: IpAddr) -> bool {
    // An IPv4 address in IPv6's clothes is that address.
    let address = match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    let is_special = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        // 64:ff9b::/96 is IPv4 behind a translator.
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments()[..2] == [0x64, 0xff9b],
    };
    is_special || address.is_unspecified() || address.is_multicast() || METADATA.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allowed: &[&str]) -> AddressGuard {
        AddressGuard::new(allowed.iter().map(|address| address.parse().unwrap()).collect(), "allow it")
    }

    #[test]
    fn metadata_and_special_addresses_are_refused_and_networks_of_ones_own_are_not() {
        let refused = [
            "169.254.169.254",
            "169.254.170.2",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "64:ff9b::a9fe:a9fe",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
        ];
        for address in refused {
            assert!(is_special(address.parse().unwrap()), "{address}");
        }
        for address in
            ["127.0.0.1", "10.1.2.3", "192.168.1.1", "93.184.216.34", "::1", "fd12::1", "2606:4700::1"]
        {
            assert!(!is_special(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_in_the_url_is_checked_in_every_spelling_and_can_be_allowed() {
        let strict = guard(&[]);
        let spellings = [
            "http://169.254.169.254/latest",
            "http://0xa9fea9fe/",
            "http://2852039166/",
            "http://[fe80::1]/",
        ];
        for url in spellings {
            assert!(strict.admit_literal(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
        let lenient = guard(&["169.254.169.254"]);
        assert!(lenient.admit_literal(&Url::parse("http://169.254.169.254/").unwrap()).is_ok());
        assert!(strict.admit_literal(&Url::parse("https://hooks.internal/").unwrap()).is_ok());
    }

    #[tokio::test]
    async fn a_name_leads_only_to_addresses_that_are_admitted() {
        let found = guard(&[]).resolve("localhost".parse().unwrap()).await.unwrap();
        assert!(found.count() > 0);
        assert!(guard(&[]).resolve("0.0.0.0".parse().unwrap()).await.is_err());
    }
}
