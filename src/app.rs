//! The composition root: builds everything once, introduces the parts to each other, and takes them down in order.
//! If you want to know how the house is wired, this is the room to look in.

mod sign_in;

pub use sign_in::sign_in_line;
