package foundationdb

import "time"

// recentFor is for how long a view is good enough to say that nothing is to be done. A MemberSet asks that for each of its members, one after the other, and each
// status costs a process here and work there.
const recentFor = 2 * time.Second

// seen is a view and when it was taken.
type seen struct {
	view *view
	at   time.Time
}

// keep has a view be the newest.
func (c *cluster) keep(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = seen{v, c.now()}
}

// recent is the newest view; nil: it is too old, or there is none. Before anything is done for what it says the cluster is asked anew.
func (c *cluster) recent() *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := c.now().Sub(c.newest.at); c.newest.view == nil || age < 0 || age > recentFor {
		return nil
	}
	return c.newest.view
}
