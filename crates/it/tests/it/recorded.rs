//! What [`model`](crate::model) found once: the operations, a line each, and what was wrong as the name.

use crate::model::replay;

#[test]
fn a_file_that_others_replaced_has_nothing_of_the_one_before() {
    replay(
        "chmod a/b - 0 0 3
         times a/b - 0 0 9
         they-put a/b - 0 50 2
         stat a/b - 0 0 0
         kill - - 0 0 0",
    );
}
