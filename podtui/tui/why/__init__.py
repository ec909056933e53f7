"""Why a pod is as it is: the diagnosis drawn, and the fix carried out."""
