//! Words: the smallest parts of a program's text form.

/// Something that is written as one word of a line, without a space in it.
pub trait Word: Sized {
    /// Appends the word.
    fn write(&self, out: &mut String);
    /// Reads a word back; nothing if it is none of this kind.
    fn read(text: &str) -> Option<Self>;
}

/// A word out of a fixed few.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every one of them, in the order of their numbers.
    const ALL: &'static [Self];
    /// Its text.
    fn text(self) -> &'static str;
    /// Its place in [`Self::ALL`].
    fn number(self) -> usize;
}

/// Declares an enumeration whose members have a text each.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($member:ident = $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the text beside each member says it")]
        pub enum $name { $($member),* }

        impl Choice for $name {
            const ALL: &'static [Self] = &[$(Self::$member),*];
            fn text(self) -> &'static str {
                match self { $(Self::$member => $text),* }
            }
            fn number(self) -> usize {
                self as usize
            }
        }

        impl Word for $name {
            fn write(&self, out: &mut String) {
                out.push_str(self.text());
            }
            fn read(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$member),)* _ => None }
            }
        }
    )*};
}
pub(crate) use choices;

/// Any number of a few choices, written `one+two`, or `-` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<T> {
    bits: u32,
    of: std::marker::PhantomData<T>,
}

impl<T: Choice> Set<T> {
    /// None of them.
    #[must_use]
    pub const fn none() -> Self {
        Self { bits: 0, of: std::marker::PhantomData }
    }

    /// These.
    #[must_use]
    pub fn of(members: &[T]) -> Self {
        members.iter().fold(Self::none(), |set, member| set.with(*member))
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, member: T) -> Self {
        self.bits |= 1 << member.number();
        self
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(self, member: T) -> bool {
        self.bits & (1 << member.number()) != 0
    }

    /// Those that are in it.
    pub fn members(self) -> impl Iterator<Item = T> {
        T::ALL.iter().copied().filter(move |member| self.has(*member))
    }

    /// The sum of what `value` says of each member: a set of flags as C wants it.
    pub fn flags(self, value: impl Fn(T) -> i32) -> i32 {
        self.members().fold(0, |flags, member| flags | value(member))
    }
}

impl<T: Choice> Word for Set<T> {
    fn write(&self, out: &mut String) {
        if self.bits == 0 {
            out.push('-');
        }
        for (at, member) in self.members().enumerate() {
            if at > 0 {
                out.push('+');
            }
            out.push_str(member.text());
        }
    }
    fn read(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::none());
        }
        text.split('+').try_fold(Self::none(), |set, name| {
            T::ALL.iter().find(|member| member.text() == name).map(|member| set.with(*member))
        })
    }
}

/// Numbers with a letter before them, which says what they count.
macro_rules! numbered {
    ($($(#[$doc:meta])* $name:ident $letter:literal)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u8);

        impl $name {
            /// As an index.
            #[must_use]
            pub fn index(self) -> usize {
                usize::from(self.0)
            }
        }

        impl Word for $name {
            fn write(&self, out: &mut String) {
                out.push($letter);
                self.0.write(out);
            }
            fn read(text: &str) -> Option<Self> {
                text.strip_prefix($letter)?.parse().ok().map(Self)
            }
        }
    )*};
}

numbered! {
    /// A variable of a process that holds a descriptor.
    Slot 's'
    /// A thread of a process: who makes a call.
    Actor 'a'
    /// A place where an address is kept for all processes.
    Name 'n'
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Word for $kind {
            fn write(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}
numbers!(u8, u32, i32, u64);

impl Word for bool {
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "yes" } else { "no" });
    }
    fn read(text: &str) -> Option<Self> {
        match text {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
}

impl<T: Word> Word for Option<T> {
    fn write(&self, out: &mut String) {
        match self {
            Some(word) => word.write(out),
            None => out.push('-'),
        }
    }
    fn read(text: &str) -> Option<Self> {
        if text == "-" { Some(None) } else { T::read(text).map(Some) }
    }
}

impl<T: Word> Word for Vec<T> {
    fn write(&self, out: &mut String) {
        if self.is_empty() {
            out.push('-');
        }
        for (at, word) in self.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            word.write(out);
        }
    }
    fn read(text: &str) -> Option<Self> {
        if text == "-" { Some(Self::new()) } else { text.split(',').map(T::read).collect() }
    }
}
