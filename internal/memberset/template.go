package memberset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// group is a group of the spec, with its templates read.
type group struct {
	*v1alpha1.MemberGroup

	pod    corev1.PodTemplateSpec
	claims []claimTemplate
}

type claimTemplate struct {
	*v1alpha1.VolumeClaimTemplate

	spec corev1.PersistentVolumeClaimSpec
}

// groupsOf reads the templates of a set. What cannot be read is a blocker.
func groupsOf(set *v1alpha1.MemberSet, kind *Kind) (groups []group, blockers []Blocker) {
	for i := range set.Spec.Groups {
		g, err := groupOf(&set.Spec.Groups[i])
		if err == nil {
			err = reserved(&g, kind, &set.Spec.System)
		}
		if err != nil {
			blockers = append(blockers, templateInvalid(set.Spec.Groups[i].Name, err))
			continue
		}
		groups = append(groups, g)
	}
	return groups, blockers
}

func groupOf(declared *v1alpha1.MemberGroup) (group, error) {
	g := group{MemberGroup: declared}
	if err := read(declared.Template.Raw, &g.pod); err != nil {
		return g, fmt.Errorf("template: %w", err)
	}
	if len(g.pod.Spec.Containers) == 0 {
		return g, fmt.Errorf("template.spec.containers: there is none")
	}
	for i := range declared.VolumeClaimTemplates {
		claim := claimTemplate{VolumeClaimTemplate: &declared.VolumeClaimTemplates[i]}
		if err := read(claim.Spec.Raw, &claim.spec); err != nil {
			return g, fmt.Errorf("volumeClaimTemplates[%d].spec: %w", i, err)
		}
		g.claims = append(g.claims, claim)
	}
	return g, nil
}

// read takes no field that it does not know: one that is misspelt would be lost without a word.
func read(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// reserved refuses a group whose members would keep no data where they have to, and what a template says that is for Usher to say, of each member another.
func reserved(g *group, kind *Kind, system *v1alpha1.System) error {
	if kind.Lists && len(g.claims) == 0 {
		return fmt.Errorf("volumeClaimTemplates: there is none, and a member of %s that loses its disk forgets its votes", kind.Name)
	}
	if kind.Refuses != nil {
		if err := kind.Refuses(&g.pod.Spec); err != nil {
			return fmt.Errorf("template.spec: %w", err)
		}
	}
	if kind.Environment == nil {
		return nil
	}
	for _, own := range kind.Environment(&g.pod.Spec, system, &Start{}) {
		if slices.ContainsFunc(g.pod.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == own.Name }) {
			return fmt.Errorf("template.spec.containers[0].env: %s is set for each member by Usher", own.Name)
		}
	}
	return nil
}
