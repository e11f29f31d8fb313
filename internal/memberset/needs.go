package memberset

import "usher.sh/usher/api/v1alpha1"

// Needs are the names of the claims that a member's pod needs, and that of the Service at which others reach it; "": at none.
func Needs(m *v1alpha1.SetMember) (claims []string, service string) {
	for _, template := range m.Shape.Claims {
		claims = append(claims, claimName(template, m.ID))
	}
	if hasService(m) {
		service = m.ID
	}
	return claims, service
}
