//! A plain reference of the allocator: it tries every choice of devices for every request, and judges only whole solutions.
//!
//! It shares no code with the search, and its worlds are small.

use std::collections::BTreeSet;

/// A device of a random world.
#[derive(Clone, Debug)]
pub struct Device {
    pub side: Option<i64>,
    /// What it consumes of the one counter.
    pub counter: i64,
    pub is_tainted: bool,
    /// Its capacity, if claims may share it.
    pub shared: Option<i64>,
    /// True if another claim has it; of a shared device, how much others have.
    pub is_taken: bool,
    pub taken: i64,
}

#[derive(Clone, Debug)]
pub struct Wanted {
    pub count: usize,
    /// The side that it selects.
    pub side: Option<i64>,
    pub tolerates: bool,
    pub is_admin: bool,
    pub amount: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constraint {
    None,
    Match,
    Distinct,
}

/// A claim: for each request its alternatives, and a constraint over all requests.
#[derive(Clone, Debug)]
pub struct Claim {
    pub requests: Vec<Vec<Wanted>>,
    pub constraint: Constraint,
}

#[derive(Clone, Debug)]
pub struct World {
    pub counter: i64,
    pub devices: Vec<Device>,
    pub claims: Vec<Claim>,
}

/// The chosen alternative and devices of each request of each claim.
pub type Solution = Vec<Vec<(usize, Vec<usize>)>>;

impl World {
    /// Returns the first rule that a whole solution breaks.
    pub fn broken_rule(&self, solution: &Solution) -> Option<&'static str> {
        let chosen = || {
            self.claims.iter().zip(solution).enumerate().flat_map(|(number, (claim, requests))| {
                claim.requests.iter().zip(requests).flat_map(move |(wanted, (alternative, devices))| {
                    devices.iter().map(move |device| (number, &wanted[*alternative], *device))
                })
            })
        };
        for (wanted, (alternative, devices)) in
            self.claims.iter().zip(solution).flat_map(|(claim, requests)| claim.requests.iter().zip(requests))
        {
            if devices.len() != wanted[*alternative].count {
                return Some("a request has another number of devices");
            }
            if devices.iter().collect::<BTreeSet<_>>().len() < devices.len() {
                return Some("a request has a device twice");
            }
        }
        for (_, wanted, device) in chosen() {
            let device = &self.devices[device];
            if wanted.side.is_some() && wanted.side != device.side {
                return Some("a device is not selected");
            }
            if device.is_tainted && !wanted.tolerates {
                return Some("a device is tainted");
            }
            if device.shared.is_none() && device.is_taken && !wanted.is_admin {
                return Some("a device belongs to another claim");
            }
        }
        for (number, device) in self.devices.iter().enumerate() {
            let users: Vec<(usize, &Wanted)> =
                chosen().filter(|(.., it)| *it == number).map(|(claim, wanted, _)| (claim, wanted)).collect();
            match device.shared {
                Some(capacity) => {
                    let amount: i64 = users.iter().map(|(_, wanted)| wanted.amount).sum();
                    if !users.is_empty() && device.taken + amount > capacity {
                        return Some("a shared device has not that much");
                    }
                }
                None if users.iter().enumerate().any(|(place, (claim, wanted))| {
                    let before = &users[..place];
                    if wanted.is_admin { before.iter().any(|(other, _)| other == claim) } else { !before.is_empty() }
                }) =>
                {
                    return Some("a device is given away twice");
                }
                None => {}
            }
        }
        // A device that is shared uses up its counters once, and one that others share has them already.
        let mut seen = BTreeSet::new();
        let new: Vec<&Device> = chosen()
            .filter(|(.., device)| self.devices[*device].shared.is_none() || seen.insert(*device))
            .map(|(.., device)| &self.devices[device])
            .filter(|device| device.shared.is_none() || device.taken == 0)
            .collect();
        let before = self.devices.iter().filter(|device| device.is_taken || device.taken > 0);
        let consumed: i64 = before.chain(new.iter().copied()).map(|device| device.counter).sum();
        if new.iter().any(|device| device.counter > 0) && consumed > self.counter {
            return Some("counters are exceeded");
        }
        for (claim, requests) in self.claims.iter().zip(solution) {
            let sides: Vec<Option<i64>> = requests
                .iter()
                .flat_map(|(_, devices)| devices.iter().map(|device| self.devices[*device].side))
                .collect();
            let distinct: BTreeSet<&Option<i64>> = sides.iter().collect();
            let holds = match claim.constraint {
                Constraint::None => true,
                Constraint::Match => distinct.len() <= 1,
                Constraint::Distinct => distinct.len() == sides.len(),
            };
            if !holds || (claim.constraint != Constraint::None && sides.contains(&None)) {
                return Some("a constraint is violated");
            }
        }
        None
    }

    /// Returns true if any choice keeps all rules.
    pub fn has_solution(&self) -> bool {
        let empty = self.claims.iter().map(|_| Vec::new()).collect();
        self.any_from(&empty)
    }

    fn any_from(&self, partial: &Solution) -> bool {
        let open = self.claims.iter().zip(partial).position(|(claim, requests)| requests.len() < claim.requests.len());
        let Some(number) = open else { return self.broken_rule(partial).is_none() };
        let alternatives = &self.claims[number].requests[partial[number].len()];
        alternatives.iter().enumerate().any(|(alternative, wanted)| {
            subsets(self.devices.len(), wanted.count).into_iter().any(|devices| {
                let mut longer = partial.clone();
                longer[number].push((alternative, devices));
                self.any_from(&longer)
            })
        })
    }
}

/// Returns all sets of so many of the first numbers.
fn subsets(of: usize, count: usize) -> Vec<Vec<usize>> {
    let all = (0..1_usize << of).map(|bits| (0..of).filter(|number| bits >> number & 1 == 1).collect::<Vec<_>>());
    all.filter(|set| set.len() == count).collect()
}
