package agent

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
)

// nodeReader look at the machine. They belong to the loop.
type nodeReader struct {
	name    string
	machine *machine.Machine
	layout  nodepressure.Layout
	memory  int64 // of the machine, in bytes
	swap    int64

	last  sight
	read  [senses]time.Time
	until [senses]time.Duration // how old each may become
}

// signalGroup is a part of the machine that is looked at as often as it may be used up, whatever the others are.
type signalGroup int

const (
	senseMachine signalGroup = iota // its memory
	sensePods                       // the memory of all pods
	sensePIDs
	senseDisks
	senses
)

// senseOf says what a signal is read with.
func senseOf(signal nodepressure.Signal) signalGroup {
	switch signal {
	case nodepressure.MemoryAvailable:
		return senseMachine
	case nodepressure.AllocatableMemoryAvailable:
		return sensePods
	case nodepressure.PIDAvailable:
		return sensePIDs
	default:
		return senseDisks
	}
}

func newEyes(name string, m *machine.Machine) (*nodeReader, error) {
	e := &nodeReader{name: name, machine: m, layout: nodepressure.Single}
	var err error
	if e.memory, e.swap, err = m.Total(); err != nil {
		return nil, err
	}
	dedicated, err := m.DedicatedImages()
	if dedicated {
		e.layout = nodepressure.DedicatedImages
	}
	return e, err
}

// sight is what one look at the machine showed.
type sight struct {
	node nodepressure.Node
	// absent are signals that this machine does not have; they are not merely unread.
	absent map[nodepressure.Signal]bool
	// all and pods are the memory of the machine and of all pods together.
	all, pods machine.Memory
	// errs say what could not be read.
	errs []error
}

// look reads what it is time for, which is everything with all: some files of the kernel, and no request to another process.
// The rest is as it was, with the time at which it was read.
func (e *nodeReader) look(now time.Time, all bool) sight {
	s := sight{
		node: nodepressure.Node{
			Name: e.name, Memory: e.memory, Swap: e.swap, Layout: e.layout,
			Readings: map[nodepressure.Signal]nodepressure.Reading{},
		},
		absent: map[nodepressure.Signal]bool{}, all: e.last.all, pods: e.last.pods,
	}
	var due [senses]bool
	for one := range senses {
		if due[one] = all || now.Sub(e.read[one]) >= e.until[one]; due[one] {
			e.read[one] = now
		}
	}
	e.keep(&s, &due)
	if due[senseMachine] {
		available, used, err := e.machine.Memory()
		s.add(nodepressure.MemoryAvailable, available, now, err)
		s.all = used
	}
	if due[sensePods] {
		available, used, err := e.machine.PodsMemory()
		s.add(nodepressure.AllocatableMemoryAvailable, available, now, err)
		s.pods = used
	}
	if due[sensePIDs] {
		available, err := e.machine.PIDs()
		s.add(nodepressure.PIDAvailable, available, now, err)
	}
	if due[senseDisks] {
		e.lookAtDisks(&s, now)
	}
	s.node.Daemons = e.daemons(&s)
	e.last = s
	return s
}

// keep takes over what is not read anew.
func (e *nodeReader) keep(s *sight, due *[senses]bool) {
	for signal, reading := range e.last.node.Readings {
		if !due[senseOf(signal)] {
			s.node.Readings[signal] = reading
		}
	}
	for signal := range e.last.absent {
		if !due[senseOf(signal)] {
			s.absent[signal] = true
		}
	}
}

// due returns how long it takes until something is to be read again.
func (e *nodeReader) due(now time.Time) time.Duration {
	next := wake.Longest
	for one := range senses {
		next = min(next, e.until[one]-now.Sub(e.read[one]))
	}
	return max(next, 0)
}

// daemons are known where the limit of all pods shows what is reserved for the rest.
func (e *nodeReader) daemons(s *sight) nodepressure.Daemons {
	_, all := s.node.Readings[nodepressure.MemoryAvailable]
	_, pods := s.node.Readings[nodepressure.AllocatableMemoryAvailable]
	reserved := e.memory - s.pods.Limit
	if !all || !pods || reserved <= 0 { // where nothing is reserved there is nothing to be exceeded
		return nodepressure.Daemons{}
	}
	return nodepressure.Daemons{Known: true, MemoryUsage: max(s.all.WorkingSet-s.pods.WorkingSet, 0), MemoryReserved: reserved}
}

func (e *nodeReader) lookAtDisks(s *sight, now time.Time) {
	node, err := e.machine.NodeFS()
	s.add(nodepressure.NodeFsAvailable, node.Bytes, now, err)
	s.add(nodepressure.NodeFsInodesFree, node.Inodes, now, err)
	layers, found := node, true
	if e.layout == nodepressure.DedicatedImages {
		layers, found, err = e.machine.ImageFS()
	}
	for signal, amount := range map[nodepressure.Signal]machine.Amount{
		nodepressure.ImageFsAvailable: layers.Bytes, nodepressure.ContainerFsAvailable: layers.Bytes,
		nodepressure.ImageFsInodesFree: layers.Inodes, nodepressure.ContainerFsInodesFree: layers.Inodes,
	} {
		if found {
			s.add(signal, amount, now, err)
		} else {
			s.absent[signal] = true
		}
	}
}

// add enters a reading. A file system that does not count inodes has none to run short of.
func (s *sight) add(signal nodepressure.Signal, amount machine.Amount, now time.Time, err error) {
	switch {
	case err != nil:
		s.errs = append(s.errs, err)
	case amount.Capacity == 0:
		s.absent[signal] = true
	default:
		s.node.Readings[signal] = nodepressure.Reading{Available: amount.Available, Capacity: amount.Capacity, At: now}
	}
}

// present leaves out thresholds of signals that the machine does not have.
func (s *sight) present(thresholds []nodepressure.Threshold) []nodepressure.Threshold {
	if len(s.absent) == 0 {
		return thresholds
	}
	return slices.DeleteFunc(slices.Clone(thresholds), func(t nodepressure.Threshold) bool { return s.absent[t.Signal] })
}

// levels are the uses of memory, as the kernel counts them, at which thresholds are met.
func (s *sight) levels(thresholds []nodepressure.Threshold, signal nodepressure.Signal, used machine.Memory) []int64 {
	reading, ok := s.node.Readings[signal]
	if !ok {
		return nil
	}
	var all []int64
	for _, t := range thresholds {
		if t.Signal == signal {
			all = append(all, reading.Capacity-t.Below.Of(reading.Capacity)+used.Usage-used.WorkingSet)
		}
	}
	slices.SortFunc(all, cmp.Compare[int64])
	return all
}
