//! Object contexts: backed by HMC memory, cached on the chip.
//!
//! A [`Cache`] holds a few contexts of one type, each in the cache line that its index selects. A
//! miss reads the context from the host memory behind the HMC. A modified context is written back
//! when its line is needed for another object, when its SD is invalidated, or (test mode) after
//! each step. The destroying command marks a destroyed object in memory; after that the object is
//! never written again.
//!
//! The layouts are this model's own (the card's are not in the sources). The first word of a stored
//! context holds the object's index and the generation of the CQP that created it, so that stale
//! data of an earlier CQP is not mistaken for an object.

use std::collections::BTreeMap;

use super::env::Env;
use super::fpm::{Kind, SD_BYTES};
use super::hmc::{Hmc, HmcFault};
use super::word::put;

/// Contexts of one type kept on the chip. The card's number and order are not in the sources; this
/// number is small, so that evictions happen.
const LINES: usize = 64;
/// Words of the largest stored context, including its first word.
const MAX_WORDS: usize = 128;

/// A context that can be stored.
pub(crate) trait Context: Clone {
    /// Its object type.
    const KIND: Kind;
    /// Words that `save` writes.
    const WORDS: usize;
    /// Writes the context.
    fn save(&self, words: &mut Writer<'_>);
    /// Reads what `save` wrote.
    fn load(words: &mut Reader<'_>) -> Self;
}

/// Collects the words of a context one by one.
pub(crate) struct Writer<'a>(std::slice::IterMut<'a, u64>);

impl Writer<'_> {
    /// Appends a word; a word that does not fit is a mistake in `WORDS`.
    pub(crate) fn put(&mut self, value: u64) {
        let slot = self.0.next();
        debug_assert!(slot.is_some(), "a context is longer than its WORDS");
        if let Some(slot) = slot {
            *slot = value;
        }
    }
}

/// Returns the words of a context one by one.
pub(crate) struct Reader<'a>(std::slice::Iter<'a, u64>);

impl Reader<'_> {
    /// The next word.
    pub(crate) fn take(&mut self) -> u64 {
        self.0.next().copied().unwrap_or(0)
    }
}

impl<T: Context> Context for Box<T> {
    const KIND: Kind = T::KIND;
    const WORDS: usize = T::WORDS;

    fn save(&self, words: &mut Writer<'_>) {
        (**self).save(words);
    }

    fn load(words: &mut Reader<'_>) -> Self {
        Self::new(T::load(words))
    }
}

/// One cached context.
#[derive(Clone, Debug)]
struct Line<T> {
    index: u64,
    context: T,
    dirty: bool,
}

/// The contexts of one type.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    /// On the heap: a driver in the same process may have a small stack.
    lines: Box<[Option<Line<T>>]>,
    /// Objects whose contexts are lent.
    lent: Vec<u64>,
    /// Identifies the life of the CQP that the contexts belong to.
    epoch: u32,
    /// Number of changes to the cache's answers: contexts stored, created, destroyed or written
    /// back.
    generation: u64,
    /// Words of stored contexts that do not fit the object, because the card packs its contexts
    /// tighter than this model does. They are only used together with the words in the object.
    beyond: BTreeMap<u64, Vec<u64>>,
}

impl<T: Context> Cache<T> {
    /// An empty cache; each life of the CQP has its own `epoch`.
    pub(crate) fn new(epoch: u32) -> Self {
        Self {
            lines: (0..LINES).map(|_| None).collect(),
            lent: Vec::new(),
            epoch,
            generation: 0,
            beyond: BTreeMap::new(),
        }
    }

    /// Grows whenever a context may have changed, or its backing must be looked up again.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// First word of a stored context.
    fn marker(&self, index: u64) -> u64 {
        u64::from(self.epoch) | put(T::KIND as u64 + 1, 39, 32) | put(index, 63, 40)
    }

    /// Location of an object's context.
    fn line(&mut self, index: u64) -> &mut Option<Line<T>> {
        let place = (index % LINES as u64) as usize;
        match self.lines.get_mut(place) {
            Some(line) => line,
            None => unreachable!("a remainder"),
        }
    }

    /// The context of an object, if it is cached.
    fn cached(&mut self, index: u64) -> Option<&mut Line<T>> {
        self.line(index).as_mut().filter(|line| line.index == index)
    }

    /// Loads the context of an object into its line; false when the object does not exist.
    fn fetch(&mut self, index: u64, hmc: &mut Hmc, env: &mut dyn Env) -> Result<bool, HmcFault> {
        debug_assert!(!self.lent.contains(&index), "used while it is lent");
        if self.cached(index).is_some() {
            return Ok(true);
        }
        let mut words = [0; MAX_WORDS];
        let used = words.get_mut(..=T::WORDS).unwrap_or_default();
        let (inside, beyond) = used.split_at_mut(Self::fitting(hmc));
        hmc.read((T::KIND, index), 0, inside, env)?;
        let kept = self.beyond.get(&index).into_iter().flatten();
        for (word, kept) in beyond.iter_mut().zip(kept) {
            *word = *kept;
        }
        let mut reader = Reader(used.iter());
        if reader.take() != self.marker(index) {
            return Ok(false);
        }
        let context = T::load(&mut reader);
        self.insert(index, context, false, hmc, env)?;
        Ok(true)
    }

    /// Whether the object exists.
    pub(crate) fn exists(
        &mut self,
        index: u64,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<bool, HmcFault> {
        self.fetch(index, hmc, env)
    }

    /// The context of an object; `None` when the object does not exist.
    pub(crate) fn get(
        &mut self,
        index: u64,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<Option<T>, HmcFault> {
        self.fetch(index, hmc, env)?;
        Ok(self.cached(index).map(|line| line.context.clone()))
    }

    /// The context of an object if it is on the chip.
    pub(crate) fn peek(&self, index: u64) -> Option<&T> {
        let line = self.lines.get((index % LINES as u64) as usize)?.as_ref()?;
        (line.index == index).then_some(&line.context)
    }

    /// The context of an object if it is on the chip, for a change there. Nothing that depends on
    /// the [`generation`](Cache::generation) of these contexts may depend on that change.
    pub(crate) fn on_chip(&mut self, index: u64) -> Option<&mut T> {
        let line = self.cached(index)?;
        line.dirty = true;
        Some(&mut line.context)
    }

    /// Like [`Cache::get`], without a copy: the cache does not have the context until it is
    /// [`put`](Cache::put) back.
    pub(crate) fn lend(
        &mut self,
        index: u64,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<Option<T>, HmcFault> {
        self.fetch(index, hmc, env)?;
        let line = self.line(index).take_if(|line| line.index == index);
        if line.is_some() {
            self.lent.push(index);
        }
        Ok(line.map(|line| line.context))
    }

    /// Replaces the context of an existing object.
    pub(crate) fn put(
        &mut self,
        index: u64,
        context: T,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        self.generation += 1;
        self.lent.retain(|lent| *lent != index);
        self.insert(index, context, true, hmc, env)
    }

    /// Creates an object: its context is written to the backing at once, so that missing backing
    /// shows at creation.
    pub(crate) fn create(
        &mut self,
        index: u64,
        context: T,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        self.generation += 1;
        self.write_back(index, &context, hmc, env)?;
        self.insert(index, context, false, hmc, env)
    }

    /// Destroys an object: after this nothing of it is written.
    pub(crate) fn destroy(
        &mut self,
        index: u64,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        self.generation += 1;
        self.line(index).take_if(|line| line.index == index);
        self.beyond.remove(&index);
        hmc.write((T::KIND, index), 0, &[0], env)
    }

    fn insert(
        &mut self,
        index: u64,
        context: T,
        dirty: bool,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        let evicted = self.line(index).take_if(|line| line.index != index);
        if let Some(line) = evicted.filter(|line| line.dirty) {
            self.write_back(line.index, &line.context, hmc, env)?;
        }
        *self.line(index) = Some(Line {
            index,
            context,
            dirty,
        });
        Ok(())
    }

    fn write_back(
        &mut self,
        index: u64,
        context: &T,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        let mut words = [0; MAX_WORDS];
        let used = words.get_mut(..=T::WORDS).unwrap_or_default();
        let mut writer = Writer(used.iter_mut());
        writer.put(self.marker(index));
        context.save(&mut writer);
        let (inside, beyond) = used.split_at(Self::fitting(hmc));
        hmc.write((T::KIND, index), 0, inside, env)?;
        if !beyond.is_empty() {
            self.beyond.insert(index, beyond.to_vec());
        }
        Ok(())
    }

    /// Words of a stored context that fit its object, including the first word.
    fn fitting(hmc: &Hmc) -> usize {
        let room = (hmc.bytes(T::KIND) / 8) as usize;
        (T::WORDS + 1).min(room.max(1))
    }

    /// Writes back and drops every line, or only those that lie (partly) in SD `sd`.
    pub(crate) fn flush(
        &mut self,
        sd: Option<u64>,
        hmc: &mut Hmc,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        debug_assert!(self.lent.is_empty(), "flushed while something is lent");
        self.generation += 1;
        let mut result = Ok(());
        let size = hmc.bytes(T::KIND).max(1);
        for place in 0..LINES as u64 {
            let touches = |index: u64, sd: u64| {
                hmc.address(T::KIND, index)
                    .is_ok_and(|fpm| (fpm / SD_BYTES..=(fpm + size - 1) / SD_BYTES).contains(&sd))
            };
            let goes = |line: &mut Line<T>| sd.is_none_or(|sd| touches(line.index, sd));
            let line = self.line(place).take_if(goes);
            if let Some(line) = line.filter(|line| line.dirty) {
                result = result.and(self.write_back(line.index, &line.context, hmc, env));
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::arp::Arp;
    use super::super::config::Config;
    use super::super::fpm::{Layout, SD_BYTES};
    use super::super::hmc::Sd;
    use super::super::tests::env::TestEnv;
    use super::*;

    /// 256 ARP entries behind one SD.
    fn backed(env: &mut TestEnv) -> (Hmc, u64) {
        let mut hmc = Hmc::default();
        let mut buffer = [0; 26];
        buffer[4] = 256;
        hmc.commit(Layout::commit(Config::default().profile, &buffer).unwrap());
        let address = env.alloc(SD_BYTES, 4096);
        hmc.set_sd(
            0,
            Some(Sd {
                direct: true,
                address,
                pages: 512,
            }),
        );
        let base = hmc.address(Kind::Arp, 0).unwrap();
        (hmc, address + base)
    }

    fn entry(mac: u64) -> Arp {
        Arp {
            mac,
            permanent: false,
            reach_max: 0,
        }
    }

    #[test]
    fn lines_are_written_back_when_others_need_them() {
        let mut env = TestEnv::new(1);
        let (mut hmc, first) = backed(&mut env);
        let mut cache = Cache::new(5);
        for n in 0..200 {
            cache.create(n, entry(n), &mut hmc, &mut env).unwrap();
        }
        // A change stays on the chip until its line is needed for another object.
        cache.put(7, entry(0x777), &mut hmc, &mut env).unwrap();
        assert_eq!(env.word(first + 7 * 64 + 8), 7);
        for n in 100..100 + LINES as u64 {
            assert_eq!(cache.get(n, &mut hmc, &mut env).unwrap(), Some(entry(n)));
        }
        assert_eq!(env.word(first + 7 * 64 + 8), 0x777);
        assert_eq!(
            cache.get(7, &mut hmc, &mut env).unwrap(),
            Some(entry(0x777))
        );
        assert_eq!(cache.get(250, &mut hmc, &mut env).unwrap(), None);
    }

    #[test]
    fn a_destroyed_object_is_never_written_again() {
        let mut env = TestEnv::new(1);
        let (mut hmc, first) = backed(&mut env);
        let mut cache = Cache::new(5);
        cache.create(3, entry(1), &mut hmc, &mut env).unwrap();
        cache.put(3, entry(2), &mut hmc, &mut env).unwrap();
        cache.destroy(3, &mut hmc, &mut env).unwrap();
        env.set_word(first + 3 * 64, 0x1111);
        cache.flush(None, &mut hmc, &mut env).unwrap();
        assert_eq!(env.word(first + 3 * 64), 0x1111);
        assert_eq!(cache.get(3, &mut hmc, &mut env).unwrap(), None);
    }

    #[test]
    fn a_lent_context_is_back_as_it_was_put() {
        let mut env = TestEnv::new(1);
        let (mut hmc, first) = backed(&mut env);
        let mut cache = Cache::new(5);
        cache.create(3, entry(1), &mut hmc, &mut env).unwrap();
        assert_eq!(cache.exists(3, &mut hmc, &mut env), Ok(true));
        assert_eq!(cache.exists(4, &mut hmc, &mut env), Ok(false));
        assert_eq!(cache.lend(4, &mut hmc, &mut env), Ok(None));
        assert_eq!(cache.lend(3, &mut hmc, &mut env), Ok(Some(entry(1))));
        // Another context may take its line meanwhile.
        let other = 3 + LINES as u64;
        cache.create(other, entry(9), &mut hmc, &mut env).unwrap();
        cache.put(3, entry(2), &mut hmc, &mut env).unwrap();
        assert_eq!(cache.get(3, &mut hmc, &mut env), Ok(Some(entry(2))));
        assert_eq!(env.word(first + 3 * 64 + 8), 1, "still on the chip");
        assert_eq!(cache.get(other, &mut hmc, &mut env), Ok(Some(entry(9))));
        assert_eq!(env.word(first + 3 * 64 + 8), 2);
    }

    #[test]
    fn another_life_does_not_see_what_is_left() {
        let mut env = TestEnv::new(1);
        let (mut hmc, _) = backed(&mut env);
        Cache::new(5)
            .create(3, entry(1), &mut hmc, &mut env)
            .unwrap();
        assert_eq!(
            Cache::<Arp>::new(6).get(3, &mut hmc, &mut env).unwrap(),
            None
        );
        assert_eq!(
            Cache::new(5).get(3, &mut hmc, &mut env).unwrap(),
            Some(entry(1))
        );
    }

    #[test]
    fn only_the_lines_of_a_cleared_sd_go() {
        let mut env = TestEnv::new(1);
        let (mut hmc, _) = backed(&mut env);
        let mut cache = Cache::new(5);
        cache.create(3, entry(1), &mut hmc, &mut env).unwrap();
        cache.flush(Some(1), &mut hmc, &mut env).unwrap();
        assert!(cache.cached(3).is_some());
        cache.flush(Some(0), &mut hmc, &mut env).unwrap();
        assert!(cache.cached(3).is_none());
    }
}
