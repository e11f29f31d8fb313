package cli

import (
	"context"

	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// setKind is the kind of MemberSets, as a subject has it.
const setKind = "memberset"

// unformedSets are what is said of MemberSets that have not formed their system, by their names: no policy guards their pods, and what keeps these is in no verdict.
// Of others, and of those that may not be read, nothing is said.
type unformedSets struct {
	objects   dynamic.Interface // nil: no cluster is asked
	namespace string
	said      map[string]string
}

func (o *whyOptions) unformedSets() *unformedSets {
	sets := &unformedSets{namespace: o.namespace, said: map[string]string{}}
	if o.dump != "" {
		return sets
	}
	config, err := restConfig(o.config)
	if err != nil {
		return sets
	}
	if objects, err := dynamic.NewForConfig(config); err == nil {
		sets.objects = objects
	}
	return sets
}

// of says of the set that controls a pod that it has not formed its system; "": none does, or it has.
func (s *unformedSets) of(ctx context.Context, p *snapshot.Pod) string {
	if p.Owner.Kind != "MemberSet" || p.Owner.APIVersion != v1alpha1.GroupVersion.String() {
		return ""
	}
	return s.named(ctx, p.Owner.Name, "no policy guards its pods before")
}

// among says of the first set among what was named that it has not formed its system, where err is that something named is not there; else it is err.
func (s *unformedSets) among(ctx context.Context, subjects []subject, err error) error {
	if !isUnknown(err) {
		return err
	}
	for _, named := range subjects {
		if named.kind != setKind {
			continue
		}
		if said := s.named(ctx, named.name, "it has no pods"); said != "" {
			return unknown("%s", said)
		}
	}
	return err
}

func (s *unformedSets) named(ctx context.Context, name, so string) string {
	if said, known := s.said[name]; known || s.objects == nil {
		return said
	}
	s.said[name] = ""
	object, err := observe.MemberSets{Objects: s.objects, Namespace: s.namespace, Name: name}.Get(ctx)
	if err != nil {
		return ""
	}
	if set, err := observe.MemberSetOf(object); err == nil && set.Status.Formed == nil {
		s.said[name] = unformed(set, so).Error()
	}
	return s.said[name]
}
