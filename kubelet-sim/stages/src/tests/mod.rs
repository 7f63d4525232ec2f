//! Whole stages: what is read, chosen and sent.

mod reading;
mod playing;
