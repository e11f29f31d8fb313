package compute

// index is what a decision looks up for each server. It is made once for a decision: who answers for Nova says how many servers and migrations there are, and a
// decision does not end before it has ended.
type index struct {
	// last is a server's last migration, evacuation its last one off the host in this loss, evacuated in any, and live the last live migration off the host of
	// which something may have arrived.
	last, evacuation, evacuated, live map[string]*Migration
	// listed are the servers on the host.
	listed map[string]bool
}

// reindex is called before a decision. Evacuations up to after were of an earlier loss.
func (l *Look) reindex(after int64) {
	l.x = &index{
		last: map[string]*Migration{}, evacuation: map[string]*Migration{}, evacuated: map[string]*Migration{}, live: map[string]*Migration{},
		listed: map[string]bool{},
	}
	for i := range l.Servers {
		l.x.listed[l.Servers[i].ID] = true
	}
	for i := range l.Migrations {
		m := &l.Migrations[i]
		newest(l.x.last, m)
		switch {
		case m.Source != l.Host:
		case m.Kind == KindLive && m.arrives():
			newest(l.x.live, m)
		case m.Kind == KindEvacuation:
			newest(l.x.evacuated, m)
			// One that is under way is of this loss whoever has asked for it, and whenever: a person has, or a step that is not remembered any more.
			if m.ID > after || m.evacuates() {
				newest(l.x.evacuation, m)
			}
		}
	}
}

func newest(of map[string]*Migration, m *Migration) {
	if before := of[m.Server]; before == nil || m.ID > before.ID {
		of[m.Server] = m
	}
}
