package histories

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// shardStore is the data of a sharded store: which keeper has a copy of which shard, on its disk.
type shardStore struct {
	keepers, routers []string
	up               map[string]bool
	closed           map[string]bool // keepers that give their shards away and get none
	forgotten        map[string]bool // those that are not on the list of members, and have none
	shards           [][]string
	// missed counts the ticks since a process was last up: the store reports one as away only after a while.
	missed map[string]int
}

// followerLag is for how many ticks a store reports a process that is away as if it were there, as Kafka does of a follower by
// default (replica.lag.time.max.ms).
const followerLag = 30

const copies = 2

func newShardStore(plan []planned, keepers int) *shardStore {
	s := &shardStore{up: map[string]bool{}, closed: map[string]bool{}, forgotten: map[string]bool{}, missed: map[string]int{}}
	for i, p := range plan {
		s.up[p.pod] = true
		if i < keepers {
			s.keepers = append(s.keepers, p.pod)
		} else {
			s.routers = append(s.routers, p.pod)
		}
	}
	for n := range 4 {
		s.shards = append(s.shards, []string{s.keepers[n%keepers], s.keepers[(n+1)%keepers]})
	}
	return s
}

// add has a router be known that has not begun, and drop has one be forgotten.
func (s *shardStore) add(router string) {
	s.routers = append(s.routers, router)
	s.missed[router] = followerLag
}

func (s *shardStore) drop(router string) {
	s.routers = slices.DeleteFunc(s.routers, func(r string) bool { return r == router })
	delete(s.up, router)
}

// wouldMiss says whether no other router serves, or no other keeper serves shards that one has.
func (s *shardStore) wouldMiss(pod string) string {
	if n := s.sole(pod); n > 0 {
		return fmt.Sprintf("no other serves %d of its shards", n)
	}
	if slices.Contains(s.keepers, pod) {
		return ""
	}
	if slices.ContainsFunc(s.routers, func(r string) bool { return r != pod && s.up[r] }) {
		return ""
	}
	return "no other routes"
}

// tick makes one copy, or drops one, for each shard.
func (s *shardStore) tick() {
	for _, name := range slices.Concat(s.keepers, s.routers) {
		s.missed[name]++
		if s.up[name] {
			s.missed[name] = 0
		}
	}
	for i, on := range s.shards {
		serving := slices.DeleteFunc(slices.Clone(on), func(k string) bool { return !s.up[k] })
		lasting := slices.DeleteFunc(slices.Clone(serving), func(k string) bool { return s.closed[k] })
		switch to := s.room(on); {
		case len(serving) == 0:
		case len(lasting) < copies && to != "":
			s.shards[i] = append(on, to)
		case len(lasting) >= copies && len(on) > copies:
			s.shards[i] = s.without(on)
		}
	}
}

// room is the open keeper with the fewest shards that has no copy.
func (s *shardStore) room(on []string) string {
	best := ""
	for _, k := range s.keepers {
		if s.up[k] && !s.closed[k] && !s.forgotten[k] && !slices.Contains(on, k) && (best == "" || s.count(k) < s.count(best)) {
			best = k
		}
	}
	return best
}

// without drops a copy: one on a closed keeper, or the last.
func (s *shardStore) without(on []string) []string {
	drop := len(on) - 1
	for i, k := range on {
		if s.up[k] && s.closed[k] {
			drop = i
		}
	}
	return slices.Delete(slices.Clone(on), drop, drop+1)
}

func (s *shardStore) count(keeper string) int {
	n := 0
	for _, on := range s.shards {
		if slices.Contains(on, keeper) {
			n++
		}
	}
	return n
}

// sole counts the shards of a keeper that no other serves.
func (s *shardStore) sole(keeper string) int {
	n := 0
	for _, on := range s.shards {
		if slices.Contains(on, keeper) && !slices.ContainsFunc(on, func(k string) bool { return k != keeper && s.up[k] }) {
			n++
		}
	}
	return n
}

func (s *shardStore) wipe(keeper string) {
	for i, on := range s.shards {
		s.shards[i] = slices.DeleteFunc(slices.Clone(on), func(k string) bool { return k == keeper })
	}
}

// wouldLose says what would not be served any more.
func (s *shardStore) wouldLose(pod string, away []string) string {
	stays := func(other string) bool { return other != pod && s.up[other] && !slices.Contains(away, other) }
	if slices.Contains(s.routers, pod) && s.up[pod] && !slices.ContainsFunc(s.routers, stays) {
		return "none would route"
	}
	for i, on := range s.shards {
		if s.up[pod] && slices.Contains(on, pod) && !slices.ContainsFunc(on, stays) {
			return fmt.Sprintf("no other serves shard %d", i)
		}
	}
	return ""
}

// wouldLoseDisk says of what no other keeper has a copy.
func (s *shardStore) wouldLoseDisk(pod string) string {
	for i, on := range s.shards {
		if slices.Equal(on, []string{pod}) {
			return fmt.Sprintf("no other has a copy of shard %d", i)
		}
	}
	return ""
}

func (s *shardStore) lost() []string {
	var lost []string
	for i, on := range s.shards {
		if len(on) == 0 {
			lost = append(lost, fmt.Sprintf("shard %d", i))
		}
	}
	return lost
}

func (s *shardStore) seemsUp(name string) bool { return s.up[name] || s.missed[name] < followerLag }

func (s *shardStore) answer(request *http.Request) *http.Response {
	name := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	switch request.Method + " " + strings.TrimSuffix(request.URL.Path, name) {
	case "GET /":
		listed := slices.DeleteFunc(slices.Clone(s.keepers), func(k string) bool { return s.forgotten[k] })
		down := slices.DeleteFunc(slices.Clone(listed), func(k string) bool { return s.seemsUp(k) })
		closed := slices.DeleteFunc(slices.Clone(s.keepers), func(k string) bool { return !s.closed[k] })
		routers := slices.DeleteFunc(slices.Clone(s.routers), func(r string) bool { return !s.seemsUp(r) })
		return said(request, http.StatusOK, map[string]any{"down": down, "closed": closed, "routers": len(routers), "routing": routers, "members": listed})
	case "GET /keepers/":
		return said(request, http.StatusOK, map[string]any{"shards": s.count(name), "sole": s.sole(name), "closed": s.closed[name]})
	case "PUT /closed/":
		s.closed[name] = true
		return said(request, http.StatusOK, map[string]any{})
	case "DELETE /members/":
		s.forgotten[name] = true
		s.wipe(name)
		return said(request, http.StatusOK, map[string]any{})
	case "PUT /members/":
		delete(s.forgotten, name)
		return said(request, http.StatusOK, map[string]any{})
	case "DELETE /closed/":
		if !s.closed[name] {
			return said(request, http.StatusNotFound, map[string]any{})
		}
		delete(s.closed, name)
		return said(request, http.StatusOK, map[string]any{})
	}
	return said(request, http.StatusNotFound, map[string]any{"error": "no such path"})
}

func said(request *http.Request, status int, body any) *http.Response {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // only a mistake in this file can make it
	}
	return plainly(request, status, string(data))
}

func plainly(request *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: reader(body), Request: request}
}

// wrong is an answer that is none.
func wrong(request *http.Request, how string) (*http.Response, error) {
	switch how {
	case "401":
		return plainly(request, http.StatusUnauthorized, "who are you?"), nil
	case "503":
		return plainly(request, http.StatusServiceUnavailable, ""), nil
	case "garbage":
		return plainly(request, http.StatusOK, "<html>welcome</html>"), nil
	case "empty":
		return plainly(request, http.StatusOK, ""), nil
	case "cut":
		return plainly(request, http.StatusOK, `{"down": [], "closed": [], "rou`), nil
	}
	<-request.Context().Done()
	return nil, request.Context().Err()
}
