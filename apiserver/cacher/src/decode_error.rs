//! `DecodeError`: why a stored value is not an object of its row.

/// Code tells the two kinds apart; the texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No configured key decrypts the value. A list that would contain it fails, because it could be any number of
    /// values.
    #[error("unable to transform key {key:?}: {why}")]
    Encrypted { key: String, why: String },
    /// The value is not an object of the row. A list leaves it out.
    #[error("{0}")]
    Malformed(String),
}

impl DecodeError {
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted { .. })
    }
}

impl From<String> for DecodeError {
    fn from(why: String) -> Self {
        Self::Malformed(why)
    }
}
