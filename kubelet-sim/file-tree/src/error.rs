//! The errors of file operations, in the words of `strerror`.

/// The reason why a file operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("No such file or directory")]
    NotFound,
    #[error("Permission denied")]
    PermissionDenied,
    #[error("Operation not permitted")]
    NotPermitted,
    #[error("Is a directory")]
    IsFolder,
    #[error("Not a directory")]
    NotFolder,
    #[error("File exists")]
    Exists,
    #[error("Directory not empty")]
    NotEmpty,
    #[error("Read-only file system")]
    ReadOnly,
    #[error("Symbolic link loop")]
    TooManyLinks,
    #[error("No space left on device")]
    NoSpace,
    #[error("Invalid argument")]
    Invalid,
    #[error("File name too long")]
    NameTooLong,
    #[error("Resource busy")]
    Busy,
    #[error("Cross-device link")]
    CrossDevice,
    #[error("I/O error")]
    Io,
    #[error("Bad file descriptor")]
    BadDescriptor,
}
