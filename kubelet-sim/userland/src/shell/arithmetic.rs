//! Arithmetic of `$((…))`: 64-bit integers with the operators of C.

use super::syntax::is_name;
use super::variables::Variables;

/// Levels to which an expression may be nested.
const MAX_DEPTH: u32 = 100;

/// Binary operators with their precedence; longer ones first.
const BINARY: [(&str, u8); 18] = [
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&&", 2),
    ("||", 1),
    ("**", 11),
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("+", 9),
    ("-", 9),
    ("<", 7),
    (">", 7),
    ("&", 5),
    ("^", 4),
];
const BIT_OR: u8 = 3;
const ASSIGNMENTS: [&str; 11] = ["<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "="];

/// Evaluates an expression; the error is a message.
pub fn evaluate(text: &str, variables: &mut Variables) -> Result<i64, String> {
    let mut reader = Reader { rest: text, variables, depth: 0, is_skipped: false };
    reader.blanks();
    if reader.rest.is_empty() {
        return Ok(0);
    }
    let value = reader.expression()?;
    reader.blanks();
    if reader.rest.is_empty() { Ok(value) } else { Err("arithmetic syntax error".to_owned()) }
}

struct Reader<'a> {
    rest: &'a str,
    variables: &'a mut Variables,
    depth: u32,
    /// True in the branch that is not taken: nothing is assigned and no division fails.
    is_skipped: bool,
}

fn wrong() -> String {
    "arithmetic syntax error".to_owned()
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= MAX_DEPTH {
            return Err("expression recursion loop detected".to_owned());
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn skipping<T>(&mut self, skips: bool, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let before = self.is_skipped;
        self.is_skipped |= skips;
        let found = read(self);
        self.is_skipped = before;
        found
    }

    fn expression(&mut self) -> Result<i64, String> {
        let mut value = self.assignment()?;
        while self.eat(",") {
            value = self.assignment()?;
        }
        Ok(value)
    }

    fn assignment(&mut self) -> Result<i64, String> {
        self.nested(|reader| {
            reader.blanks();
            let before = reader.rest;
            if let Some(name) = reader.name() {
                reader.blanks();
                let operator = ASSIGNMENTS.into_iter().find(|operator| reader.rest.starts_with(operator));
                if let Some(operator) = operator.filter(|_| !reader.rest.starts_with("==")) {
                    reader.rest = &reader.rest[operator.len()..];
                    let right = reader.assignment()?;
                    let value = match operator.trim_end_matches('=') {
                        "" => right,
                        operator => {
                            let left = reader.variable(name)?;
                            reader.apply(operator, left, right)?
                        }
                    };
                    return reader.set(name, value);
                }
            }
            reader.rest = before;
            reader.conditional()
        })
    }

    fn conditional(&mut self) -> Result<i64, String> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.skipping(condition == 0, Self::assignment)?;
        if !self.eat(":") {
            return Err(wrong());
        }
        let no = self.skipping(condition != 0, Self::assignment)?;
        Ok(if condition != 0 { yes } else { no })
    }

    fn operator(&mut self) -> Option<(&'static str, u8)> {
        self.blanks();
        let found = BINARY.into_iter().find(|(operator, _)| self.rest.starts_with(operator));
        let found = found.or_else(|| self.rest.starts_with('|').then_some(("|", BIT_OR)))?;
        // `a += 1` is no addition.
        let is_assignment = self.rest[found.0.len()..].starts_with('=') && !matches!(found.1, 6 | 7);
        (!is_assignment).then_some(found)
    }

    fn binary(&mut self, lowest: u8) -> Result<i64, String> {
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self.operator().filter(|(_, precedence)| *precedence > lowest) {
            self.rest = &self.rest[operator.len()..];
            let skips = match operator {
                "&&" => left == 0,
                "||" => left != 0,
                _ => false,
            };
            let below = if operator == "**" { precedence - 1 } else { precedence };
            let right = self.skipping(skips, |reader| reader.nested(|reader| reader.binary(below)))?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn apply(&self, operator: &str, left: i64, right: i64) -> Result<i64, String> {
        let shift = (right & 63) as u32;
        Ok(match operator {
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "*" => left.wrapping_mul(right),
            "/" | "%" if right == 0 && self.is_skipped => 0,
            "/" | "%" if right == 0 => return Err("divide by zero".to_owned()),
            "/" => left.wrapping_div(right),
            "%" => left.wrapping_rem(right),
            "**" if right < 0 => return Err("exponent less than 0".to_owned()),
            "**" => left.wrapping_pow(u32::try_from(right).unwrap_or(u32::MAX)),
            "<<" => left.wrapping_shl(shift),
            ">>" => left.wrapping_shr(shift),
            "<" => i64::from(left < right),
            ">" => i64::from(left > right),
            "<=" => i64::from(left <= right),
            ">=" => i64::from(left >= right),
            "==" => i64::from(left == right),
            "!=" => i64::from(left != right),
            "&" => left & right,
            "^" => left ^ right,
            "|" => left | right,
            "&&" => i64::from(left != 0 && right != 0),
            "||" => i64::from(left != 0 || right != 0),
            _ => return Err(wrong()),
        })
    }

    fn unary(&mut self) -> Result<i64, String> {
        self.nested(|reader| {
            for (sign, by) in [("++", 1), ("--", -1)] {
                if reader.eat(sign) {
                    reader.blanks();
                    let name = reader.name().ok_or_else(wrong)?;
                    let value = reader.variable(name)?.wrapping_add(by);
                    return reader.set(name, value);
                }
            }
            if reader.eat("-") {
                return Ok(reader.unary()?.wrapping_neg());
            }
            if reader.eat("+") {
                return reader.unary();
            }
            if reader.eat("!") {
                return Ok(i64::from(reader.unary()? == 0));
            }
            if reader.eat("~") {
                return Ok(!reader.unary()?);
            }
            reader.primary()
        })
    }

    fn primary(&mut self) -> Result<i64, String> {
        if self.eat("(") {
            let value = self.nested(Self::expression)?;
            return if self.eat(")") { Ok(value) } else { Err(wrong()) };
        }
        self.blanks();
        if let Some(name) = self.name() {
            let value = self.variable(name)?;
            for (sign, by) in [("++", 1), ("--", -1)] {
                if self.eat(sign) {
                    self.set(name, value.wrapping_add(by))?;
                }
            }
            return Ok(value);
        }
        let length = self.rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let digits = &self.rest[..length];
        self.rest = &self.rest[length..];
        number(digits).ok_or_else(wrong)
    }

    fn name(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let name = &self.rest[..length];
        is_name(name).then(|| {
            self.rest = &self.rest[length..];
            name
        })
    }

    /// Returns the value of a variable, which may be an expression itself.
    fn variable(&mut self, name: &str) -> Result<i64, String> {
        let text = self.variables.get(name).unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(value) = text.strip_prefix('-').and_then(number).map(i64::wrapping_neg).or_else(|| number(&text)) {
            return Ok(value);
        }
        if self.depth >= MAX_DEPTH / 2 {
            return Err("expression recursion loop detected".to_owned());
        }
        let mut inner =
            Reader { rest: &text, variables: self.variables, depth: self.depth + 10, is_skipped: self.is_skipped };
        let value = inner.expression()?;
        inner.blanks();
        if inner.rest.is_empty() { Ok(value) } else { Err(wrong()) }
    }

    fn set(&mut self, name: &str, value: i64) -> Result<i64, String> {
        if !self.is_skipped {
            self.variables.set(name, value.to_string())?;
        }
        Ok(value)
    }
}

/// Reads a decimal, octal (`017`) or hexadecimal (`0x1f`) number.
fn number(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().map(|value| value as i64);
    }
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        Some(digits) => i64::from_str_radix(digits, 8).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_values_of_c() {
        for (text, expected) in [
            ("1 + 2 * 3", "7"),
            ("(1+2)*3", "9"),
            ("7/2, 7%2", "1"),
            ("2**3**2", "512"),
            ("1 < 2 && 3 >= 3", "1"),
            ("0 || 0", "0"),
            ("x + 1", "6"),
            ("y = x * 2", "10"),
            ("x += 3", "8"),
            ("x++ + x", "11"),
            ("--x", "4"),
            ("0x10 + 010", "24"),
            ("1 ? 2 : 3", "2"),
            ("0 ? 1/0 : 3", "3"),
            ("~0 & 0xff", "255"),
            ("1 << 4 | 1", "17"),
            ("!5", "0"),
            ("-x", "-5"),
            ("", "0"),
            ("unset", "0"),
            ("1/0", "divide by zero"),
            ("1 +", "arithmetic syntax error"),
            ("1 2", "arithmetic syntax error"),
            ("loop", "expression recursion loop detected"),
            ("9223372036854775807 + 1", "-9223372036854775808"),
        ] {
            let mut variables = Variables::default();
            variables.set("x", "5").unwrap();
            variables.set("loop", "loop").unwrap();
            let value = evaluate(text, &mut variables).map_or_else(|error| error, |value| value.to_string());
            assert_eq!(value, expected, "{text}");
        }
    }
}
