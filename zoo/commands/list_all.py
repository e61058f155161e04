def list_all(recipes, markdown=False):
    """Shows the recipes, and the SavedModels in ./saved_models with their scores."""
    from zoo.serving import catalogue, saved_model

    if markdown:
        print(catalogue.markdown_table("saved_models"))
        return
    print("recipes (zoo train NAME --output RUN)")
    for name, recipe in recipes.items():
        print(f"  {name:<20} {recipe.Config.__doc__.splitlines()[0]}")
    print("saved models (zoo predict saved_models/NAME TEXT; of pictures, FILE)")
    models, damaged = catalogue.find_models("saved_models"), []
    for path in models:
        version = saved_model.find_version(path).name
        try:
            scores = saved_model.read_about(path).get("scores", {})
            listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in scores.items())
        except (ValueError, TypeError, AttributeError, LookupError) as error:  # others are well
            damaged.append(path.name)
            print(f"  {path.name:<20} version {version}: damaged: {error}")
            continue
        print(f"  {path.name:<20} version {version}: {listed or 'no scores'} (dev)")
    if not models:
        print("  none in ./saved_models")
    if damaged:
        raise ValueError(f"Export these again: {', '.join(damaged)}")
