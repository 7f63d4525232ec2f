//! Authenticates by the static token file (`--token-auth-file`): each line has token, user, uid and quoted groups.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/token/tokenfile.

use request::UserInfo;
use subtle::ConstantTimeEq;

/// A line of the token file is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("token file line {line}: {why}")]
pub struct TokenFileError {
    line: usize,
    why: &'static str,
}

/// The tokens of a file. Comparison takes constant time, so that its duration reveals nothing about a token.
#[derive(Clone, Default)]
pub struct TokenFile {
    users: Vec<(String, UserInfo)>,
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenFile").field("users", &self.users.len()).finish()
    }
}

impl TokenFile {
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let error = |why| TokenFileError { line: index + 1, why };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let columns = columns(line).ok_or_else(|| error("a quote is not closed"))?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(error("it needs at least token, user name and uid"));
            };
            if token.is_empty() {
                return Err(error("the token is empty"));
            }
            let groups = rest.first().map(|g| g.split(',').map(|g| g.trim().to_owned()).collect()).unwrap_or_default();
            users.push((
                token.clone(),
                UserInfo { name: name.clone(), uid: uid.clone(), groups, ..UserInfo::default() },
            ));
        }
        Ok(Self { users })
    }

    pub fn of(users: Vec<(String, UserInfo)>) -> Self {
        Self { users }
    }

    pub fn find(&self, token: &str) -> Option<UserInfo> {
        let mut found = None;
        for (known, user) in &self.users {
            if bool::from(known.as_bytes().ct_eq(token.as_bytes())) {
                found = Some(user.clone());
            }
        }
        found
    }
}

/// Splits one CSV line into columns; `""` inside quotes is a quote.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let last = columns.last_mut().expect("there is always a column");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c if quoted || !last.is_empty() || !c.is_whitespace() => last.push(c),
            _ => {}
        }
    }
    (!quoted).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_users() {
        let file = TokenFile::parse("t1,admin,1,\"system:masters,ops\"\n\nt2,bob,2\n").unwrap();
        assert_eq!(file.find("t1").unwrap().groups, ["system:masters", "ops"]);
        assert_eq!(file.find("t2").unwrap().name, "bob");
        assert_eq!(file.find("t3"), None);
    }

    #[test]
    fn bad_lines_are_named() {
        assert_eq!(
            TokenFile::parse("a,b,c\nt,admin").unwrap_err().to_string(),
            "token file line 2: it needs at least token, user name and uid"
        );
        assert!(TokenFile::parse("t,a,b,\"c").is_err());
        assert!(TokenFile::parse(",a,b").is_err());
    }
}
