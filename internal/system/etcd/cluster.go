package etcd

import (
	"context"
	"sync"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
)

// cluster is a System over an API.
type cluster struct {
	api       API
	maxLag    int64
	endpoints []string
	timeout   time.Duration

	mu   sync.Mutex
	urls []string // client URLs of the members at the last look
}

func (c *cluster) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	l, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	asked := make([]string, len(members))
	for i, m := range members {
		asked[i] = m.ID
	}
	v := judge(l)
	return v.evidence(c.alarms(ctx, v), c.maxLag, asked), nil
}

// alarms asks one healthy voter after the other, since each answer costs the cluster an entry in its log.
func (c *cluster) alarms(ctx context.Context, v *view) alarms {
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, 1))
	defer cancel()
	for _, s := range v.voters() {
		if !s.healthy() {
			continue
		}
		if all, err := c.api.Alarms(ctx, s.url); err == nil {
			return alarms{known: true, all: all}
		}
	}
	return alarms{}
}

func (c *cluster) Close() { c.api.Close() }
