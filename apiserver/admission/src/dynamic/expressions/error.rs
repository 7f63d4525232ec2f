//! `ExpressionError`: the reason why an expression of a webhook or policy has no value.

use super::budget::OutOfBudget;
use crate::metrics::policies::ErrorType;

/// Corresponds to the errors of k8s.io/apiserver/pkg/admission/plugin/cel; displayed in Kubernetes' wording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("compilation error: {0}")]
    Compilation(String),
    #[error(transparent)]
    OutOfBudget(#[from] OutOfBudget),
    /// The expression failed, or its value cannot be used.
    #[error("{0}")]
    Evaluation(String),
}

impl ExpressionError {
    pub fn error_type(&self) -> ErrorType {
        match self {
            Self::Compilation(_) => ErrorType::Compile,
            Self::OutOfBudget(_) => ErrorType::OutOfBudget,
            Self::Evaluation(_) => ErrorType::Invalid,
        }
    }
}

impl From<String> for ExpressionError {
    fn from(why: String) -> Self {
        Self::Evaluation(why)
    }
}
