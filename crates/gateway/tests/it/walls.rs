//! What must not compile does not compile.

#[test]
fn the_walls_stand() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
