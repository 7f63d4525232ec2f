//! Paths into a tree as errors write them: `spec.containers[0].image`.

/// One segment of a path.
#[derive(Clone, Copy, Debug)]
pub enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

impl Segment<'_> {
    /// Appends the segment to a path.
    pub fn push_to(self, path: &mut String) {
        match self {
            Self::Index(index) => path.push_str(&format!("[{index}]")),
            Self::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
        }
    }
}
