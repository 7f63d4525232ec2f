//! `Store`: the storage engine of a test's cluster.

use component_base_testing::etcd_process::EtcdProcess;
use orrery::up::{Options, StoreKind};

/// A storage engine. An etcd belongs to the test and must outlive the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    Memory,
    Embedded,
    Etcd(&'a EtcdProcess),
    /// An etcd member with this client URL.
    EtcdAt(&'a str),
}

impl Store<'_> {
    pub fn kind(self) -> StoreKind {
        match self {
            Self::Memory => StoreKind::Memory,
            Self::Embedded => StoreKind::Embedded,
            Self::Etcd(_) | Self::EtcdAt(_) => StoreKind::Etcd,
        }
    }

    /// Returns the client URLs of the etcd members, if any.
    pub fn etcd_endpoints(self) -> Vec<String> {
        match self {
            Self::Etcd(etcd) => etcd.urls(),
            Self::EtcdAt(url) => vec![url.to_owned()],
            Self::Memory | Self::Embedded => Vec::new(),
        }
    }

    /// Returns options of `up` with this store.
    pub fn options(self, others: Options) -> Options {
        Options { store: self.kind(), etcd_endpoints: self.etcd_endpoints(), ..others }
    }
}
