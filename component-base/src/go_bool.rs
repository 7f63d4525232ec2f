//! Booleans in flags and feature gates, as Go parses them.
//!
//! Corresponds to strconv.ParseBool.

pub fn parse(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("want true or false".to_owned()),
    }
}
