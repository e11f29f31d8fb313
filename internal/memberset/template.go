package memberset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	// hash is that of the spec in the template, labels that of its labels and annotations, which change in place.
	hash, labels string
}

type claimTemplate struct {
	*v1alpha1.VolumeClaimTemplate

	spec corev1.PersistentVolumeClaimSpec
	hash string
}

// claim is the group's claim template of a name; nil: it has none.
func (g *group) claim(name string) *claimTemplate {
	at := slices.IndexFunc(g.claims, func(t claimTemplate) bool { return t.Name == name })
	if at < 0 {
		return nil
	}
	return &g.claims[at]
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
	var parts struct {
		Metadata, Spec json.RawMessage
	}
	if err := json.Unmarshal(declared.Template.Raw, &parts); err != nil {
		return g, fmt.Errorf("template: %w", err)
	}
	g.hash, g.labels = hashOf(parts.Spec), hashOf(parts.Metadata)
	for i := range declared.VolumeClaimTemplates {
		claim := claimTemplate{VolumeClaimTemplate: &declared.VolumeClaimTemplates[i]}
		whole, err := json.Marshal(claim.VolumeClaimTemplate)
		if err != nil {
			return g, fmt.Errorf("volumeClaimTemplates[%d]: %w", i, err)
		}
		claim.hash = hashOf(whole)
		if err := read(claim.Spec.Raw, &claim.spec); err != nil {
			return g, fmt.Errorf("volumeClaimTemplates[%d].spec: %w", i, err)
		}
		g.claims = append(g.claims, claim)
	}
	return g, nil
}

// hashOf is the hash of what was written, whatever the order of its fields: what it means to another version of Usher or of Kubernetes does not change it.
func hashOf(raw []byte) string {
	var content any
	if err := json.Unmarshal(raw, &content); err != nil {
		content = nil
	}
	canonical, err := json.Marshal(content) // with the keys of objects in order
	if err != nil {
		canonical = raw
	}
	return sumOf(canonical)
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
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
	if err := reachable(g, kind); err != nil {
		return err
	}
	if kind.Accepts != nil {
		if err := kind.Accepts(system, g.MemberGroup); err != nil {
			return err
		}
	}
	if kind.Refuses != nil {
		if err := kind.Refuses(&g.pod.Spec); err != nil {
			return fmt.Errorf("template.spec: %w", err)
		}
	}
	if kind.Environment == nil {
		return nil
	}
	for _, own := range kind.Environment(&g.pod.Spec, system, &Start{Group: g.MemberGroup}) {
		if slices.ContainsFunc(g.pod.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == own.Name }) {
			return fmt.Errorf("template.spec.containers[0].env: %s is set for each member by Usher", own.Name)
		}
	}
	return nil
}

// reachable refuses what a kind cannot do: processes that share a pod, and addresses by which its members do not find each other.
func reachable(g *group, kind *Kind) error {
	switch {
	case g.MembersPerPod > 1 && !kind.Several:
		return fmt.Errorf("membersPerPod: a pod of %s has one member", kind.Name)
	case g.AddressFrom != "" && !slices.Contains(kind.AddressFrom, g.AddressFrom):
		return fmt.Errorf("addressFrom: %s cannot be reached at the address of a %s", kind.Name, g.AddressFrom)
	case len(g.Parameters) > 0 && !kind.Configured:
		return fmt.Errorf("parameters: no configuration says how processes of %s start; give them in the template", kind.Name)
	case g.PerNode != nil && kind.Lists:
		return fmt.Errorf("perNode: the number of members of %s decides about its quorum, and must not follow that of nodes", kind.Name)
	case len(g.pod.Spec.NodeSelector) > mostSelected:
		return fmt.Errorf("template.spec.nodeSelector: has more than %d labels", mostSelected)
	}
	return nil
}
