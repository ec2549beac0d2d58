//! The macro that turns a struct of choices into a table of them.

use std::str::FromStr;

/// A choice of the table: its name and the names of its values, the usual one first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The field of [`Variation`](super::Variation).
    pub name: &'static str,
    /// The values' names.
    pub values: &'static [&'static str],
}

/// An unknown choice or value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSuchChoice {
    /// The table has no choice of that name.
    #[error("no choice is called {0}; there are {1}")]
    Name(String, String),
    /// The choice has no such value.
    #[error("{0} is one of {1}, not {2}")]
    Value(&'static str, String, String),
    /// The text is no list of choices.
    #[error("`{0}` is neither seed=N nor CHOICE=VALUE")]
    Text(String),
    /// The choice is made before.
    #[error("`{0}`: that is chosen before; leave one of them out")]
    Twice(String),
    /// The seed would take back what stands before it.
    #[error("seed={0} draws all choices: put it before the others")]
    LateSeed(String),
}

/// Each row is `name: Type [Usual, Other, ...];`, the values being variants of the type.
macro_rules! variations {
    ($( $(#[$doc:meta])* $name:ident: $kind:ident [$usual:ident $(, $other:ident)+]; )+) => {
        /// One value for each choice.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct Variation {
            $( $(#[$doc])* pub $name: $kind, )+
        }

        impl Default for Variation {
            fn default() -> Self {
                Self { $( $name: $kind::$usual, )+ }
            }
        }

        impl Variation {
            /// The table.
            pub const CHOICES: &[Choice] = &[$(
                Choice {
                    name: stringify!($name),
                    values: &[stringify!($usual) $(, stringify!($other))+],
                },
            )+];

            /// Every choice as `seed` says. Another row does not change what a seed says of
            /// the others.
            #[must_use]
            pub fn drawn(seed: u64) -> Self {
                let root = Rng::new(seed);
                Self { $(
                    $name: {
                        let values = [$kind::$usual $(, $kind::$other)+];
                        let index = root.fork(stringify!($name)).below(values.len() as u64);
                        values.into_iter().nth(index as usize).unwrap_or($kind::$usual)
                    },
                )+ }
            }

            /// Names of the choices and of their values here.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
                [$(
                    (stringify!($name), match self.$name {
                        $kind::$usual => stringify!($usual),
                        $( $kind::$other => stringify!($other), )+
                    }),
                )+].into_iter()
            }

            /// Makes one choice by its name and that of the value.
            ///
            /// # Errors
            /// The names that there are, when one is not.
            pub fn choose(&mut self, name: &str, value: &str) -> Result<(), table::NoSuchChoice> {
                match name {
                    $( stringify!($name) => match value {
                        stringify!($usual) => self.$name = $kind::$usual,
                        $( stringify!($other) => self.$name = $kind::$other, )+
                        _ => {
                            let values = [stringify!($usual) $(, stringify!($other))+].join(", ");
                            return Err(table::NoSuchChoice::Value(stringify!($name), values, value.to_owned()));
                        }
                    }, )+
                    _ => {
                        let names = [$(stringify!($name)),+].join(", ");
                        return Err(table::NoSuchChoice::Name(name.to_owned(), names));
                    }
                }
                Ok(())
            }
        }
    };
}
pub(super) use variations;

/// A list of `choice=Value`, comma between them; `seed=N` draws all of them, so it stands first.
impl FromStr for super::Variation {
    type Err = NoSuchChoice;

    fn from_str(text: &str) -> Result<Self, NoSuchChoice> {
        let mut variation = Self::default();
        let mut names = Vec::new();
        for part in text.split(',') {
            let wrong = || NoSuchChoice::Text(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            if names.contains(&name) {
                return Err(NoSuchChoice::Twice(part.to_owned()));
            }
            names.push(name);
            match (name, value) {
                ("seed", seed) if names.len() > 1 => {
                    return Err(NoSuchChoice::LateSeed(seed.to_owned()));
                }
                ("seed", seed) => variation = Self::drawn(seed.parse().map_err(|_| wrong())?),
                (name, value) => variation.choose(name, value)?,
            }
        }
        Ok(variation)
    }
}

impl super::Variation {
    /// The name of this choice's value, if there is such a choice.
    #[must_use]
    pub fn value_of(&self, choice: &str) -> Option<&'static str> {
        self.values()
            .find_map(|(name, value)| (name == choice).then_some(value))
    }

    /// The usual card with one choice made otherwise, for each choice and each of its other values,
    /// as `choice=Value`.
    #[must_use]
    pub fn each_alone() -> Vec<(String, Self)> {
        let others = Self::CHOICES.iter().flat_map(|choice| {
            choice
                .values
                .iter()
                .skip(1)
                .map(|value| (choice.name, *value))
        });
        others
            .map(|(name, value)| {
                let mut variation = Self::default();
                // The names are those of the table.
                let _ = variation.choose(name, value);
                (format!("{name}={value}"), variation)
            })
            .collect()
    }
}
