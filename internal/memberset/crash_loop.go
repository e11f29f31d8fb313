package memberset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// bySet is the value of the annotation on a pod whose set says that its container is to crash, or that its configuration is to be empty; byPod is that on one whose
// predecessor of the name said so; a person's has another than the first.
const (
	bySet = "set"
	byPod = "pod"
)

// noProgram is what a container starts that is to crash, so that its volumes can be looked at while nothing uses them.
const noProgram = "/crash-loop.usher.sh"

// noteDebugging takes over what members' pods say of which containers are to crash, and of empty configurations, so that pods that are made anew say so too.
func (d *decision) noteDebugging() {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		p := d.pod(m.ID)
		if p == nil || p.Terminating {
			continue
		}
		m.CrashLoop, m.EmptyConfiguration = nil, saysEmpty(p)
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			if container, is := strings.CutPrefix(key, v1alpha1.CrashLoopPrefix); is && p.Annotations[key] != bySet && len(m.CrashLoop) < mostCrashLoops {
				m.CrashLoop = append(m.CrashLoop, container)
			}
		}
	}
}

// crashLoops are the containers of a member's template that are to crash, by why: those that its pod names, and those that its set names for it or for all.
func (d *decision) crashLoops(g *group, m *v1alpha1.SetMember) map[string]string {
	all := map[string]string{}
	for i := range g.pod.Spec.Containers {
		switch container := g.pod.Spec.Containers[i].Name; {
		case slices.Contains(m.CrashLoop, container):
			all[container] = byPod
		case d.crashing[container].has(m.ID):
			all[container] = bySet
		}
	}
	return all
}

// targets are the ids of a list that an annotation has; "*" stands for all. They are read once: a list may be as long as an object, and a set has many members.
type targets map[string]bool

func targetsOf(list string) targets {
	t := targets{}
	for id := range strings.SplitSeq(list, ",") {
		t[strings.TrimSpace(id)] = true
	}
	return t
}

func (t targets) has(id string) bool { return t[id] || t["*"] }

// crashingOf are the members of which a set says that a container is to crash, by the container.
func crashingOf(set *v1alpha1.MemberSet) map[string]targets {
	all := map[string]targets{}
	for key, list := range set.Annotations {
		if container, is := strings.CutPrefix(key, v1alpha1.CrashLoopPrefix); is {
			all[container] = targetsOf(list)
		}
	}
	return all
}

// uncontained blocks where annotations have containers crash that no group of the set has, or of a pod its own group: nothing comes of them. One blocker is of the set,
// and one of its pods.
func (d *decision) uncontained() {
	if len(d.groups) < len(d.Set.Spec.Groups) { // the others are not known
		return
	}
	has := map[string]bool{}
	for i := range d.groups {
		for j := range d.groups[i].pod.Spec.Containers {
			has[d.groups[i].pod.Spec.Containers[j].Name] = true
		}
	}
	var lacks []string
	for _, container := range slices.Sorted(maps.Keys(d.crashing)) {
		if !has[container] {
			lacks = append(lacks, container)
		}
	}
	if len(lacks) > 0 {
		d.block(containersUnknown("memberset", d.Set.Name, lacks, slices.Sorted(maps.Keys(has)), d.Set.Namespace))
	}
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if g := d.group(m.Group); g != nil {
			own := namesOf(&g.pod.Spec)
			lacks := slices.DeleteFunc(slices.Clone(m.CrashLoop), func(c string) bool { return slices.Contains(own, c) })
			if len(lacks) > 0 {
				d.block(containersUnknown("pod", m.ID, lacks, own, d.Set.Namespace))
				return
			}
		}
	}
}

// namesOf are those of a pod's containers.
func namesOf(spec *corev1.PodSpec) []string {
	names := make([]string, 0, len(spec.Containers))
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
	}
	return names
}

// crash has containers of a pod crash, and the pod say so, which repair respects.
func (d *decision) crash(g *group, pod *corev1.Pod, m *v1alpha1.SetMember) {
	for container, why := range d.crashLoops(g, m) {
		pod.Annotations[v1alpha1.CrashLoopPrefix+container] = why
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; c.Name == container {
				c.Command, c.Args = []string{noProgram}, nil
			}
		}
	}
}

// started are the commands that have a member start again which annotations keep from it; nil: it is Ready, or none does.
func (d *decision) started(m *v1alpha1.SetMember) []string {
	g := d.group(m.Group)
	if g == nil || d.down(m) == 0 {
		return nil
	}
	var commands []string
	off := func(annotation, why string) {
		object := "memberset " + d.Set.Name
		if why == byPod {
			object = "pod " + m.ID
		}
		commands = append(commands, fmt.Sprintf("kubectl annotate %s -n %s %s-", object, d.Set.Namespace, annotation))
	}
	crash := d.crashLoops(g, m)
	for _, container := range slices.Sorted(maps.Keys(crash)) {
		off(v1alpha1.CrashLoopPrefix+container, crash[container])
	}
	if why := d.emptyConfiguration(m); why != "" {
		off(v1alpha1.EmptyConfigurationAnnotation, why)
	}
	return commands
}
