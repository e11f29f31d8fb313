package observe

import "slices"

// endCovered ends the feeds of a resource of which another one, that of all of their namespace or of all, shows all that they show: each
// brings again what tenants have written. The caller holds the lock.
func (o *Observer) endCovered(r resource) {
	if !o.covered[r] {
		return
	}
	o.covered[r] = false
	for _, f := range slices.Clone(o.feedsOf(r)) {
		for _, whole := range []question{f.question.whole(), {resource: r}} {
			by := o.feeds[whole]
			if by == nil || by == f || f.ended {
				continue
			}
			if by.synced && by.err == nil && f.within(by) {
				by.aside = by.aside && f.aside
				o.end(f)
			} else {
				o.covered[r] = true // it may be later
			}
		}
	}
}

// end ends a feed. What it has brought stays. The caller holds the lock.
func (o *Observer) end(f *feed) {
	r := f.question.resource
	f.ended = true
	f.cancel()
	delete(o.feeds, f.question)
	o.byResource[r] = slices.DeleteFunc(slices.Clone(o.byResource[r]), func(other *feed) bool { return other == f })
	o.noteGap(r)
}
