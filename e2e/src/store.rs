//! `Store`: where the cluster of a test keeps its state.

use component_base_testing::etcd_process::EtcdProcess;
use orrery::up::{Options, StoreKind};

/// An engine; an etcd lives as long as its owner, the test.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    Memory,
    Embedded,
    Etcd(&'a EtcdProcess),
    /// A member, by its client URL.
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

    /// Client URLs of the etcd members, where there are some.
    pub fn etcd_endpoints(self) -> Vec<String> {
        match self {
            Self::Etcd(etcd) => etcd.urls(),
            Self::EtcdAt(url) => vec![url.to_owned()],
            Self::Memory | Self::Embedded => Vec::new(),
        }
    }

    /// The same options of `up`, for this store.
    pub fn options(self, others: Options) -> Options {
        Options { store: self.kind(), etcd_endpoints: self.etcd_endpoints(), ..others }
    }
}
