package nodepressure

// ForLayout returns the thresholds with those of containerfs, which are not configured: they are those of the file system that
// holds the writable layers. Thresholds that were set for containerfs by hand are left out.
func ForLayout(thresholds []Threshold, layout Layout) []Threshold {
	containerfs := map[Signal]Signal{NodeFsAvailable: ContainerFsAvailable, NodeFsInodesFree: ContainerFsInodesFree}
	if layout == DedicatedImages {
		containerfs = map[Signal]Signal{ImageFsAvailable: ContainerFsAvailable, ImageFsInodesFree: ContainerFsInodesFree}
	}
	var out []Threshold
	for _, t := range thresholds {
		if t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree {
			continue
		}
		out = append(out, t)
		if derived, found := containerfs[t.Signal]; found {
			t.Signal = derived
			out = append(out, t)
		}
	}
	sortThresholds(out)
	return out
}

// partsOn returns the parts of a pod that are on the file system of a disk signal.
func partsOn(s Signal, layout Layout) []FsPart {
	nodefs := s == NodeFsAvailable || s == NodeFsInodesFree
	imagefs := s == ImageFsAvailable || s == ImageFsInodesFree
	switch {
	case layout == DedicatedImages && nodefs:
		return []FsPart{Logs, Volumes}
	case layout == DedicatedImages:
		return []FsPart{WritableLayers}
	case layout == SplitImages && imagefs:
		return nil // images alone, which belong to no pod
	default:
		return []FsPart{WritableLayers, Logs, Volumes}
	}
}

// reclaimFirst returns what the kubelet clears away before it evicts for a signal.
func reclaimFirst(s Signal, layout Layout) []Reclaim {
	if s.Resource() == resourceMemory || s.Resource() == resourcePIDs {
		return nil
	}
	nodefs := s == NodeFsAvailable || s == NodeFsInodesFree
	imagefs := s == ImageFsAvailable || s == ImageFsInodesFree
	switch {
	case layout == DedicatedImages && nodefs:
		return nil
	case layout == SplitImages && imagefs:
		return []Reclaim{UnusedImages}
	case layout == SplitImages:
		return []Reclaim{DeadContainers}
	default:
		return []Reclaim{DeadContainers, UnusedImages}
	}
}
