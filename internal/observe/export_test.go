package observe

// Limited returns the options with other limits than the usual ones.
func (o Options) Limited(selecting, feeds, sample int) Options {
	o.limits = limits{selecting, feeds, sample}
	return o
}

// Unselected returns the resources of which everything is read.
func (o *Observer) Unselected() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for q := range o.feeds {
		if q == (question{resource: q.resource}) {
			all = append(all, q.resource.name)
		}
	}
	return all
}
