//! Quick acknowledgments: at once, where a peer waits for them.
//!
//! A delayed acknowledgment saves a segment where the application answers or a second segment comes (RFC 9293, 3.8.6.3). A
//! peer that sends nothing more until it is acknowledged waits for the delay in vain: one whose window is a single segment after
//! a lost SYN (RFC 5681, 3.1), or one that Nagle's algorithm holds. Three signs tell of it: the SYN had to be sent again, its window has
//! no room for two segments, or the delay has run out. Then each of the next [`SEGMENTS`] segments is acknowledged at once, or those up
//! to the first that acknowledges an answer of the application.
//!
//! Meanwhile nothing is predicted, so the predicted path need not look. Where an application answers within the delay there is
//! no sign, and this module must never make an acknowledgment that a request and its response would not have.

use crate::tcp::tcb::Tcb;

/// Segments that are acknowledged at once: as many as Linux acknowledges so in one go.
const SEGMENTS: u8 = 16;

impl Tcb {
    /// The peer seems to wait for acknowledgments.
    pub(in crate::tcp) fn acknowledge_quickly(&mut self) {
        self.set_quick(SEGMENTS);
    }

    /// Acknowledges the next segments at once, or as usual.
    pub(crate) fn set_quick_acknowledgments(&mut self, on: bool) {
        self.set_quick(if on { SEGMENTS } else { 0 });
    }

    fn set_quick(&mut self, segments: u8) {
        self.quick = segments;
        self.predict();
    }

    /// Tells whether a segment with data is acknowledged at once, and counts it.
    pub(in crate::tcp) fn is_quick(&mut self) -> bool {
        if self.quick == 0 {
            return false;
        }
        self.set_quick(self.quick - 1);
        true
    }
}
