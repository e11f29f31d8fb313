package sim

import (
	"math/rand/v2"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Sim is a simulated cluster. It is not safe for concurrent use.
type Sim struct {
	cfg    Config
	dice   *rand.Rand
	start  time.Time
	now    time.Time
	serial uint64

	truth *snapshot.Cluster
	seen  *snapshot.Cluster // what View shows; truth itself where nothing lags
	watch *watch

	events      eventQueue
	controllers map[snapshot.OwnerKey]*replicaController
	guards      budgetTrackers
	scheduler   scheduler
	busy        map[types.UID]bool     // Deployments that are unsettled by what the simulation did
	desired     map[snapshot.Key]int32 // replicas that an autoscaler's metrics ask for
	oracle      *oracle
}

// New starts a simulation from a view, which it does not change.
func New(view snapshot.View, cfg Config) *Sim {
	s := &Sim{
		cfg:         cfg,
		dice:        rand.New(rand.NewPCG(cfg.Seed, 1)),
		start:       view.Now,
		now:         view.Now,
		truth:       view.Cluster.Clone(),
		events:      newEventQueue(),
		controllers: map[snapshot.OwnerKey]*replicaController{},
		busy:        map[types.UID]bool{},
		desired:     map[snapshot.Key]int32{},
	}
	s.seen = s.truth
	s.watch = newWatch(cfg.Lag, s.dice)
	if !s.watch.direct {
		s.seen = s.truth.Clone()
	}
	s.guards = newGuards(s.truth)
	s.scheduler = scheduler{cluster: s.truth}
	if cfg.Judge != nil {
		s.oracle = newOracle(*cfg.Judge, s.truth)
	}
	s.resume()
	return s
}

// View returns what an observer sees now.
func (s *Sim) View() snapshot.View {
	return snapshot.View{Now: s.now, Cluster: s.seen, HoldLimits: s.cfg.HoldLimits}
}

// Truth returns the cluster as it is, without any lag. The caller must not change it.
func (s *Sim) Truth() snapshot.View { return snapshot.View{Now: s.now, Cluster: s.truth} }

// version returns a new resource version.
func (s *Sim) version() string { return "s" + strconv.FormatUint(s.count(), 36) }

func (s *Sim) count() uint64 {
	s.serial++
	return s.serial
}
