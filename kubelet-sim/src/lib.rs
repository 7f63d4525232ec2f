//! To be filled in: see ARCHITECTURE.md.
