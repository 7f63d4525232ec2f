//! `SelectorVerdicts`: whether expressions match a device. A device is made anew with each state of its slice, so what is kept holds for
//! as long as the device is there.

use cel::device::DeviceExpression;
use parking_lot::Mutex;
use std::sync::Arc;

/// Number of expressions for each device. Few classes and templates of claims concern one.
const MAX_VERDICTS: usize = 8;

/// A compiled expression. Two are the same if they are one object.
pub type Compiled = Arc<Result<DeviceExpression, String>>;

#[derive(Debug, Default)]
pub struct SelectorVerdicts(Mutex<Vec<(Compiled, bool)>>);

impl SelectorVerdicts {
    /// Returns the verdict of an expression, and evaluates it if it is not known. An error is not kept.
    pub fn of<E>(&self, expression: &Compiled, evaluate: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let mut known = self.0.lock();
        if let Some((_, matches)) = known.iter().find(|(of, _)| Arc::ptr_eq(of, expression)) {
            return Ok(*matches);
        }
        let matches = evaluate()?;
        if known.len() >= MAX_VERDICTS {
            known.remove(0);
        }
        known.push((expression.clone(), matches));
        Ok(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_evaluated_once_as_long_as_it_is_known() {
        let expression = || Arc::new(DeviceExpression::compile("true"));
        let (kept, one, verdicts) = (std::cell::Cell::new(0), expression(), SelectorVerdicts::default());
        let ask = |of: &Compiled, is: bool| {
            verdicts.of(of, || {
                kept.set(kept.get() + 1);
                Ok::<_, ()>(is)
            })
        };
        assert_eq!((ask(&one, true), ask(&one, false), kept.get()), (Ok(true), Ok(true), 1));
        assert_eq!((ask(&expression(), false), kept.get()), (Ok(false), 2), "an equal text is not the same expression");
        for _ in 0..MAX_VERDICTS {
            ask(&expression(), true).unwrap();
        }
        assert_eq!(ask(&one, false), Ok(false), "the oldest is forgotten");
        let fails = expression();
        assert_eq!(verdicts.of(&fails, || Err("no such key")), Err("no such key"));
        assert_eq!(verdicts.of(&fails, || Ok::<_, &str>(true)), Ok(true));
    }
}
